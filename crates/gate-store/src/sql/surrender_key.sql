UPDATE intents SET holds_key = 0 WHERE id = $1;
