SELECT
    id, intent_id, state, approver, expires_at, digest, votes, decided_at, decided_by, note, justifications,
    on_approval, hold_id, hold_url
FROM approvals WHERE id = $1;
