INSERT INTO reservations (intent_id, scope, period, starts_at, ends_at, usd_micros)
VALUES ($1, $2, $3, $4, $5, $6);
