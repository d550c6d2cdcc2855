INSERT INTO gateways (id, name, created_at, revoked_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name,
    created_at = excluded.created_at,
    revoked_at = excluded.revoked_at;
