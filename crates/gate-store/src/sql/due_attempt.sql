SELECT id FROM intents
WHERE attempt_id = $1 AND state = 'submitted'
LIMIT $2;
