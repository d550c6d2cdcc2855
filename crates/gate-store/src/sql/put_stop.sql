INSERT INTO stops (scope, stopped_by, note, stopped_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (scope) DO UPDATE SET
    stopped_by = excluded.stopped_by,
    note = excluded.note,
    stopped_at = excluded.stopped_at;
