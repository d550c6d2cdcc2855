SELECT n, at, actor, action, subject, details, salt, marks, digest, hash FROM audit
WHERE n > $1 ORDER BY n LIMIT $2;
