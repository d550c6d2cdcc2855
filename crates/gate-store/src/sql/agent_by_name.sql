SELECT id FROM agents WHERE name = $1 OR id = $1 ORDER BY id LIMIT 1;
