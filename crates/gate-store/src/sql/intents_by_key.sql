SELECT id FROM intents
WHERE idempotency_key = $1
    AND id < $2
    AND agent_id = COALESCE($3, agent_id)
    AND state = COALESCE($4, state)
ORDER BY id DESC LIMIT $5;
