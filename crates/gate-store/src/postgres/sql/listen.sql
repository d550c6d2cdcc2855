LISTEN gate_store_commits;
