SELECT used_at FROM nonces WHERE keyid = $1 AND nonce = $2;
