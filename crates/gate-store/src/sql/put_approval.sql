INSERT INTO approvals (
    id, intent_id, state, approver, expires_at, digest, votes, decided_at, decided_by, note, justifications,
    on_approval, hold_id, hold_url
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (id) DO UPDATE SET
    state = excluded.state,
    approver = excluded.approver,
    expires_at = excluded.expires_at,
    digest = excluded.digest,
    votes = excluded.votes,
    decided_at = excluded.decided_at,
    decided_by = excluded.decided_by,
    note = excluded.note,
    justifications = excluded.justifications,
    on_approval = excluded.on_approval,
    hold_id = excluded.hold_id,
    hold_url = excluded.hold_url
WHERE approvals.intent_id = excluded.intent_id;
