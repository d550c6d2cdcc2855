SELECT scope, period, starts_at, ends_at, spent_micros FROM windows
WHERE scope = $1 AND ends_at > $2 AND starts_at <= $2
ORDER BY scope, period, starts_at, ends_at;
