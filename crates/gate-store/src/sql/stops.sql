SELECT scope, stopped_by, note, stopped_at FROM stops ORDER BY scope;
