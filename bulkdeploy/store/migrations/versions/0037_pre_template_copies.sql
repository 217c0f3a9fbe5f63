ALTER TABLE template_copies ADD COLUMN IF NOT EXISTS checksum TEXT DEFAULT '' NOT NULL;
ALTER TABLE template_copies ADD COLUMN IF NOT EXISTS first_attempt INTEGER DEFAULT '1' NOT NULL;
COMMENT ON COLUMN template_copies.checksum IS 'of the template as it was copied';
COMMENT ON COLUMN template_copies.first_attempt IS 'those from this one to the last before attempt came to nothing';
UPDATE template_copies c SET checksum = t.checksum FROM templates t
WHERE t.uuid = c.template_uuid AND t.checksum IS NOT NULL;
