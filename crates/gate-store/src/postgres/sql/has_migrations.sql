SELECT CAST(1 AS BIGINT) FROM pg_catalog.pg_tables
WHERE schemaname = current_schema() AND tablename = 'migrations';
