DELETE FROM gateway_keys WHERE gateway_id = $1;
