SELECT id FROM intents
WHERE state = 'submitted' AND (lease_until IS NULL OR lease_until <= $1)
ORDER BY id LIMIT $2;
