SELECT id FROM intents
WHERE follow_at <= $1
    AND state = 'settled'
    AND (lease_until IS NULL OR lease_until <= $1)
    AND livemode = COALESCE($2, livemode)
    AND ($2 IS NULL OR account_id IS NOT DISTINCT FROM $3)
ORDER BY follow_at, id LIMIT $4;
