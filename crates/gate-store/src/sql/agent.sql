SELECT id, name, created_at, revoked_at, sources FROM agents WHERE id = $1;
