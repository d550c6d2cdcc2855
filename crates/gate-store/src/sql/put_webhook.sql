INSERT INTO webhooks (agent, url, generation, rotated_at, done_to, attempts, next_try_at,
    failing_since, disabled_at, last_try_at, last_result, given_up)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (agent) DO UPDATE SET
    url = excluded.url,
    generation = excluded.generation,
    rotated_at = excluded.rotated_at,
    done_to = excluded.done_to,
    attempts = excluded.attempts,
    next_try_at = excluded.next_try_at,
    failing_since = excluded.failing_since,
    disabled_at = excluded.disabled_at,
    last_try_at = excluded.last_try_at,
    last_result = excluded.last_result,
    given_up = excluded.given_up;
