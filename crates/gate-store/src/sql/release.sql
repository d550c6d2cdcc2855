DELETE FROM reservations WHERE intent_id = $1;
