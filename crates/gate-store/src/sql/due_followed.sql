SELECT id FROM intents
WHERE follow_at <= $1
    AND state = $2
    AND (lease_until IS NULL OR lease_until <= $1)
    AND livemode = COALESCE($3, livemode)
    AND ($3 IS NULL OR account_id IS NOT DISTINCT FROM $4)
ORDER BY follow_at, id LIMIT $5;
