SELECT
    current_setting('server_encoding') AS server_encoding,
    current_setting('fsync') AS fsync;
