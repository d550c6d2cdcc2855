SELECT COUNT(*) AS refunds FROM intents
WHERE agent_id = $1
    AND submitted_at > $2
    AND state IN ('submitted', 'awaiting_stripe', 'settled', 'reversed');
