INSERT INTO users (name, roles, created_at) VALUES ($1, $2, $3);
