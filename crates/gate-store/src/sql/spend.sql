INSERT INTO windows (scope, period, starts_at, ends_at, spent_micros)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (scope, period, starts_at, ends_at) DO UPDATE SET
    spent_micros = windows.spent_micros + excluded.spent_micros;
