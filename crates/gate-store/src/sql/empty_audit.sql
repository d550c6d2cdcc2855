UPDATE audit SET actor = $1, subject = $2, details = $3, salt = $4 WHERE n = $5;
