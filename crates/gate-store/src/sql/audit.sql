SELECT n, at, actor, action, subject, details, salt, digest, hash FROM audit ORDER BY n;
