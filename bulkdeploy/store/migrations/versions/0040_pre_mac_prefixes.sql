SELECT setval('mac_address_numbers', (1 + floor(random() * 4095))::bigint << 28)
WHERE (SELECT last_value FROM mac_address_numbers) < 1::bigint << 28;
