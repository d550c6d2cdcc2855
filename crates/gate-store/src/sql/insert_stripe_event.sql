INSERT INTO stripe_events (id, noted_at) VALUES ($1, $2);
