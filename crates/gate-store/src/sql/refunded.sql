SELECT COUNT(*) AS refunds, CAST(COALESCE(SUM(usd_micros), 0) AS BIGINT) AS usd_micros
FROM intents
WHERE customer_id = $1
    AND submitted_at > $2
    AND state IN ('submitted', 'awaiting_stripe', 'settled', 'reversed');
