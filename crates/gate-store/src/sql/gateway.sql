SELECT id, name, created_at, revoked_at FROM gateways WHERE id = $1;
