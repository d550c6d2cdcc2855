SELECT intents.id FROM intents
JOIN approvals ON approvals.id = intents.approval_id
WHERE intents.state IN ('approved', 'pending_approval')
    AND approvals.expires_at <= $1
    AND (
        intents.state = 'pending_approval'
        OR approvals.decided_at IS NULL
        OR approvals.decided_at <= $2
    )
    AND intents.livemode = COALESCE($3, intents.livemode)
    AND ($3 IS NULL OR intents.account_id IS NOT DISTINCT FROM $4)
ORDER BY intents.id LIMIT $5;
