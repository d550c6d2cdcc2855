SELECT id FROM intents
WHERE id = $1
    AND state IN ('approved', 'submitted')
    AND (lease_until IS NULL OR lease_until <= $2)
LIMIT $3;
