DELETE FROM stops WHERE scope = $1;
