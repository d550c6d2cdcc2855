NOTIFY gate_store_commits;
COMMIT;
