SELECT agent_id FROM agent_keys WHERE hash = $1;
