SELECT id FROM intents
WHERE agent_id = $1
    AND id < $2
    AND state = COALESCE($3, state)
ORDER BY id DESC LIMIT $4;
