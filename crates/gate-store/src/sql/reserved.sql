SELECT 1 FROM reservations WHERE intent_id = $1 LIMIT 1;
