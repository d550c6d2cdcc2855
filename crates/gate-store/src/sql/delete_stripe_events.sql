DELETE FROM stripe_events WHERE noted_at < $1;
