-- Gateways that ask this authority over the network, and the nonces of their calls.

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
