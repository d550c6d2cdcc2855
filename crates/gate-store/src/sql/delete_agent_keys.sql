DELETE FROM agent_keys WHERE agent_id = $1;
