SELECT date, currency, units_per_eur FROM rates WHERE date = (SELECT MAX(date) FROM rates);
