DELETE FROM rates WHERE date = $1;
