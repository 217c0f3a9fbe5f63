-- The tag of the physical networks that networks of an offering are made on.

ALTER TABLE network_offerings ADD COLUMN tags TEXT;

COMMENT ON COLUMN network_offerings.tags IS 'of the physical networks that its networks are made on; NULL: any';
