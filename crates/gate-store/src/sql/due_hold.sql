SELECT intents.id FROM intents
JOIN approvals ON approvals.id = intents.approval_id
WHERE intents.state = 'awaiting_stripe'
    AND (approvals.hold_id = $1 OR approvals.hold_id IS NULL)
    AND (intents.lease_until IS NULL OR intents.lease_until <= $2)
    AND intents.livemode = COALESCE($3, intents.livemode)
    AND ($3 IS NULL OR intents.account_id IS NOT DISTINCT FROM $4)
ORDER BY approvals.hold_id IS NULL, intents.id LIMIT $5;
