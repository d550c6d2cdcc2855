INSERT INTO gateway_keys (gateway_id, version, public_key, created_at, expires_at, last_used_at)
VALUES ($1, $2, $3, $4, $5, $6);
