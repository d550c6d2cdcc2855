UPDATE users SET roles = $1 WHERE name = $2;
