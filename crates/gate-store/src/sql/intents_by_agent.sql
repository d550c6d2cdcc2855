SELECT id FROM intents
WHERE agent_id = $1
    AND id < $2
    AND ($3 IS NULL OR state = $3)
ORDER BY id DESC LIMIT $4;
