SELECT intent_id, scope, period, starts_at, ends_at, usd_micros FROM reservations;
