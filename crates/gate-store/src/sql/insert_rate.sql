INSERT INTO rates (date, currency, units_per_eur) VALUES ($1, $2, $3);
