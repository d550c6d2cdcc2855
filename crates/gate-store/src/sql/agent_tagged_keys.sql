SELECT mark FROM agent_tagged_keys ORDER BY mark;
