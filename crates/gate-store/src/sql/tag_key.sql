INSERT INTO agent_tagged_keys (mark, noted_at) VALUES ($1, $2) ON CONFLICT (mark) DO NOTHING;
