SELECT noted_at FROM stripe_events WHERE id = $1;
