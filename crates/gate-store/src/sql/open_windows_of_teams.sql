SELECT scope, period, starts_at, ends_at, spent_micros FROM windows
WHERE substr(scope, 1, 5) = 'team:' AND ends_at > $1 AND starts_at <= $1;
