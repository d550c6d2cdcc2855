BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(1734440037);
SELECT CAST(floor(extract(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT) AS now_millis;
