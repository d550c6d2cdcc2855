SELECT id FROM intents
WHERE agent_id = $1
    AND charge_id = $2
    AND wanted_minor IS NOT DISTINCT FROM $3
    AND keyless = 1
    AND holds_key = 1
    AND (
        state IN ('pending_approval', 'approved', 'submitted', 'awaiting_stripe', 'not_executed')
        OR (state = 'settled' AND settled_at >= $4)
    )
ORDER BY id DESC LIMIT 1;
