INSERT INTO migrations (number, checksum) VALUES ($1, $2);
