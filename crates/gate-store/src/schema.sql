-- The whole schema, as all migrations together leave it; a test holds one against the other.
-- Times are milliseconds since 1970-01-01 in UTC, dollars are counted in millionths.

CREATE TABLE migrations (
    number INTEGER NOT NULL PRIMARY KEY,
    checksum TEXT NOT NULL
) STRICT;

CREATE TABLE agents (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    sources TEXT NOT NULL
) STRICT;

CREATE TABLE agent_keys (
    hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    agent_id TEXT NOT NULL REFERENCES agents (id),
    place INTEGER NOT NULL,
    hint TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    UNIQUE (agent_id, place)
) STRICT;

CREATE TABLE intents (
    id TEXT NOT NULL PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    agent_name TEXT NOT NULL,
    team TEXT,
    tool TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    holds_key INTEGER NOT NULL CHECK (holds_key IN (0, 1)),
    keyless INTEGER NOT NULL CHECK (keyless IN (0, 1)),
    wanted_minor INTEGER,
    reason TEXT,
    charge_id TEXT NOT NULL,
    payment_intent_id TEXT,
    customer_id TEXT,
    seen TEXT,
    amount_minor INTEGER NOT NULL CHECK (amount_minor >= 0),
    currency TEXT NOT NULL,
    usd_micros INTEGER CHECK (usd_micros >= 0),
    rate_kind TEXT,
    rate_units_per_eur TEXT,
    rate_usd_per_eur TEXT,
    rate_usd_per_unit TEXT,
    rate_date TEXT,
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    account_id TEXT,
    state TEXT NOT NULL,
    denied_by TEXT,
    reasons TEXT NOT NULL,
    policy_version INTEGER NOT NULL,
    approval_id TEXT,
    refund_id TEXT,
    refund_status TEXT,
    refund_intent_id TEXT,
    failure_code TEXT,
    failure_message TEXT,
    needs_person INTEGER NOT NULL CHECK (needs_person IN (0, 1)),
    request_form TEXT,
    request_account_id TEXT,
    request_version TEXT,
    submitted_at INTEGER,
    attempt_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    lease_until INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    settled_at INTEGER,
    follow_at INTEGER
) STRICT;

CREATE UNIQUE INDEX intents_key_holder ON intents (agent_id, idempotency_key) WHERE holds_key = 1;
CREATE INDEX intents_by_agent ON intents (agent_id, id);
CREATE INDEX intents_by_charge ON intents (agent_id, charge_id, id);
CREATE INDEX intents_by_key ON intents (idempotency_key, id);
CREATE INDEX intents_by_payment_intent ON intents (agent_id, payment_intent_id, id);
CREATE INDEX intents_by_attempt ON intents (attempt_id);
CREATE INDEX intents_by_follow_at ON intents (follow_at) WHERE follow_at IS NOT NULL;
CREATE INDEX intents_by_customer ON intents (customer_id, submitted_at) WHERE customer_id IS NOT NULL;
CREATE INDEX intents_by_submission ON intents (agent_id, submitted_at);
CREATE INDEX intents_by_state ON intents (state, id);

CREATE TABLE approvals (
    id TEXT NOT NULL PRIMARY KEY,
    intent_id TEXT NOT NULL REFERENCES intents (id),
    state TEXT NOT NULL,
    approver TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    digest TEXT NOT NULL,
    votes TEXT NOT NULL,
    decided_at INTEGER,
    decided_by TEXT,
    note TEXT,
    justifications TEXT NOT NULL,
    on_approval TEXT NOT NULL,
    hold_id TEXT,
    hold_url TEXT
) STRICT;

CREATE INDEX approvals_by_hold ON approvals (hold_id) WHERE hold_id IS NOT NULL;

CREATE TABLE agent_tagged_keys (
    mark TEXT NOT NULL PRIMARY KEY,
    noted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
    version INTEGER NOT NULL PRIMARY KEY,
    text TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE stops (
    scope TEXT NOT NULL PRIMARY KEY,
    stopped_by TEXT NOT NULL,
    note TEXT,
    stopped_at INTEGER NOT NULL
) STRICT;

CREATE TABLE users (
    name TEXT NOT NULL PRIMARY KEY,
    roles TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE rates (
    date TEXT NOT NULL,
    currency TEXT NOT NULL,
    units_per_eur TEXT NOT NULL,
    PRIMARY KEY (date, currency)
) STRICT, WITHOUT ROWID;

CREATE TABLE windows (
    scope TEXT NOT NULL,
    period TEXT NOT NULL,
    starts_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    spent_micros INTEGER NOT NULL CHECK (spent_micros >= 0),
    PRIMARY KEY (scope, period, starts_at, ends_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX windows_by_end ON windows (scope, ends_at);
CREATE INDEX windows_of_teams ON windows (ends_at) WHERE substr(scope, 1, 5) = 'team:';

CREATE TABLE reservations (
    intent_id TEXT NOT NULL REFERENCES intents (id),
    scope TEXT NOT NULL,
    period TEXT NOT NULL,
    starts_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    usd_micros INTEGER NOT NULL CHECK (usd_micros >= 0),
    PRIMARY KEY (intent_id, scope, period, starts_at, ends_at),
    FOREIGN KEY (scope, period, starts_at, ends_at)
        REFERENCES windows (scope, period, starts_at, ends_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE stripe_events (
    id TEXT NOT NULL PRIMARY KEY,
    noted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX stripe_events_by_time ON stripe_events (noted_at);

CREATE TABLE gateways (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE TABLE gateway_keys (
    gateway_id TEXT NOT NULL REFERENCES gateways (id),
    version INTEGER NOT NULL,
    public_key BLOB NOT NULL UNIQUE CHECK (length(public_key) = 32),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    PRIMARY KEY (gateway_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE nonces (
    keyid TEXT NOT NULL,
    nonce TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (keyid, nonce)
) STRICT, WITHOUT ROWID;

CREATE INDEX nonces_by_time ON nonces (used_at);

CREATE TABLE webhooks (
    agent TEXT NOT NULL PRIMARY KEY,
    url TEXT,
    generation INTEGER NOT NULL,
    rotated_at INTEGER,
    done_to INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_try_at INTEGER,
    failing_since INTEGER,
    disabled_at INTEGER,
    last_try_at INTEGER,
    last_result TEXT,
    given_up INTEGER NOT NULL
) STRICT;

CREATE TABLE audit (
    n INTEGER NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    details TEXT NOT NULL,
    salt BLOB NOT NULL CHECK (length(salt) = 48),
    marks BLOB NOT NULL CHECK (length(marks) = 96),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
