SELECT id, name, created_at, revoked_at FROM agents WHERE id = $1;
