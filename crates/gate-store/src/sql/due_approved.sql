SELECT intents.id FROM intents
JOIN approvals ON approvals.id = intents.approval_id
WHERE intents.state = 'approved'
    AND (intents.lease_until IS NULL OR intents.lease_until <= $1)
    AND approvals.on_approval = 'execute'
    AND (approvals.expires_at > $1 OR approvals.decided_at > $2)
    AND NOT EXISTS (
        SELECT 1 FROM stops
        WHERE scope IN ('organization', 'agent:' || intents.agent_id, 'team:' || intents.team)
    )
    AND intents.livemode = COALESCE($3, intents.livemode)
    AND ($3 IS NULL OR intents.account_id IS NOT DISTINCT FROM $4)
ORDER BY intents.id LIMIT $5;
