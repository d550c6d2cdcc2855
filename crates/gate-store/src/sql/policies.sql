SELECT version, text, author, created_at FROM policies ORDER BY version;
