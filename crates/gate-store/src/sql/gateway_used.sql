UPDATE gateway_keys SET last_used_at = $1 WHERE gateway_id = $2 AND version = $3;
