SELECT id FROM intents
WHERE id = $1
    AND state IN ('approved', 'submitted')
    AND (lease_until IS NULL OR lease_until <= $2)
    AND ($3 IS NULL OR (livemode = $3 AND account_id IS NOT DISTINCT FROM $4))
LIMIT $5;
