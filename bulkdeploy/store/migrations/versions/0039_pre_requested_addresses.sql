ALTER TABLE nics ADD COLUMN IF NOT EXISTS has_requested_ip BOOLEAN DEFAULT false NOT NULL;
ALTER TABLE nics ADD COLUMN IF NOT EXISTS has_requested_mac BOOLEAN DEFAULT false NOT NULL;
COMMENT ON COLUMN nics.has_requested_ip IS 'a caller named ip_address';
COMMENT ON COLUMN nics.has_requested_mac IS 'a caller named mac_address';
UPDATE nics SET has_requested_mac = true WHERE mac_address NOT LIKE '1e:%' AND removed IS NULL;
