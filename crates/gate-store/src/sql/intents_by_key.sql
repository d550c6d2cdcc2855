SELECT id FROM intents
WHERE idempotency_key = $1
    AND id < $2
    AND ($3 IS NULL OR agent_id = $3)
    AND ($4 IS NULL OR state = $4)
ORDER BY id DESC LIMIT $5;
