SELECT hash, hint, created_at, expires_at FROM agent_keys WHERE agent_id = $1 ORDER BY place;
