SELECT CAST(floor(extract(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT) AS now_millis;
