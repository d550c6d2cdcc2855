SELECT id FROM intents WHERE state = $1 AND id < $2 ORDER BY id DESC LIMIT $3;
