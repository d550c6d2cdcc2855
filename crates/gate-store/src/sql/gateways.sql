SELECT id FROM gateways ORDER BY name;
