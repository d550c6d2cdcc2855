SELECT id FROM agents ORDER BY name;
