DELETE FROM nonces WHERE used_at < $1;
