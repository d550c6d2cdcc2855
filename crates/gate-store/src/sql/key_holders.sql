SELECT id FROM intents WHERE holds_key = 1 ORDER BY id;
