SELECT name, roles, created_at FROM users ORDER BY name;
