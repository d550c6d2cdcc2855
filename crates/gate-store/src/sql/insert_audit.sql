INSERT INTO audit (n, at, actor, action, subject, details, salt, marks, digest, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
