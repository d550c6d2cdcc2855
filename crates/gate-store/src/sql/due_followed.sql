SELECT id FROM intents
WHERE follow_at <= $1
    AND state = 'settled'
    AND (lease_until IS NULL OR lease_until <= $1)
ORDER BY follow_at, id LIMIT $2;
