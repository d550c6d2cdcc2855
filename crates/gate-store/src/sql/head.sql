SELECT n, hash FROM audit WHERE n = (SELECT MAX(n) FROM audit);
