SELECT agent, url, generation, rotated_at, done_to, attempts, next_try_at, failing_since,
    disabled_at, last_try_at, last_result, given_up
FROM webhooks ORDER BY agent;
