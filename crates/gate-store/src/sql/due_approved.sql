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
ORDER BY intents.id LIMIT $3;
