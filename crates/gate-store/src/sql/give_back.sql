UPDATE windows SET spent_micros = windows.spent_micros - reserved.usd_micros
FROM reservations AS reserved
WHERE reserved.intent_id = $1
    AND windows.scope = reserved.scope
    AND windows.period = reserved.period
    AND windows.starts_at = reserved.starts_at
    AND windows.ends_at = reserved.ends_at;
