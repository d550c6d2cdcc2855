SELECT scope, period, starts_at, ends_at, spent_micros FROM windows;
