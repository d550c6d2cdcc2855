SELECT id FROM intents
WHERE attempt_id = $1 AND state = 'submitted'
    AND ($2 IS NULL OR (livemode = $2 AND account_id IS NOT DISTINCT FROM $3))
LIMIT $4;
