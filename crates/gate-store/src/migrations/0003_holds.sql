-- What Stripe holds for approvals of its own, and the keys of which it is known.

ALTER TABLE approvals ADD COLUMN hold_id TEXT;
ALTER TABLE approvals ADD COLUMN hold_url TEXT;

CREATE INDEX approvals_by_hold ON approvals (hold_id) WHERE hold_id IS NOT NULL;

CREATE TABLE agent_tagged_keys (
    mark TEXT NOT NULL PRIMARY KEY,
    noted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

UPDATE intents SET follow_at = updated_at WHERE state = 'awaiting_stripe';
