SELECT set_config('synchronous_commit', 'on', FALSE)
WHERE current_setting('synchronous_commit') = 'off';
