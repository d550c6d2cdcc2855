SELECT id FROM intents
WHERE state = 'submitted' AND (lease_until IS NULL OR lease_until <= $1)
    AND livemode = COALESCE($2, livemode)
    AND ($2 IS NULL OR account_id IS NOT DISTINCT FROM $3)
ORDER BY id LIMIT $4;
