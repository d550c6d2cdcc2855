INSERT INTO nonces (keyid, nonce, used_at) VALUES ($1, $2, $3);
