INSERT INTO policies (version, text, author, created_at)
SELECT $1, $2, $3, $4
WHERE $1 = (SELECT COALESCE(MAX(version), 0) + 1 FROM policies);
