SELECT id FROM intents
WHERE attempt_id = $1 AND state = 'submitted'
    AND livemode = COALESCE($2, livemode)
    AND ($2 IS NULL OR account_id IS NOT DISTINCT FROM $3)
LIMIT $4;
