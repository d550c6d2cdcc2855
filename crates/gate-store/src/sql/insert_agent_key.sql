INSERT INTO agent_keys (hash, agent_id, place, hint, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6);
