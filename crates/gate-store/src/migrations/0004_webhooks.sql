-- How far each agent's webhook was told of the audit log, and how its secret is made.

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
