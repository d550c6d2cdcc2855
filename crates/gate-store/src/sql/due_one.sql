SELECT id FROM intents
WHERE id = $1
    AND state IN ('approved', 'submitted')
    AND (lease_until IS NULL OR lease_until <= $2)
    AND livemode = COALESCE($3, livemode)
    AND ($3 IS NULL OR account_id IS NOT DISTINCT FROM $4)
LIMIT $5;
