SELECT version, text, author, created_at FROM policies
WHERE version = (SELECT MAX(version) FROM policies);
