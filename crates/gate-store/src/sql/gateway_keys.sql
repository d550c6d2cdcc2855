SELECT version, public_key, created_at, expires_at, last_used_at FROM gateway_keys
WHERE gateway_id = $1 ORDER BY version;
