SELECT id FROM intents
WHERE agent_id = $1
    AND payment_intent_id = $2
    AND (wanted_minor IS NOT DISTINCT FROM $3 OR amount_minor = $4)
    AND state = 'denied'
    AND denied_by = 'person'
    AND updated_at >= $5
ORDER BY id DESC LIMIT 1;
