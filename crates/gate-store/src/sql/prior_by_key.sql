SELECT id FROM intents WHERE agent_id = $1 AND idempotency_key = $2 AND holds_key = 1;
