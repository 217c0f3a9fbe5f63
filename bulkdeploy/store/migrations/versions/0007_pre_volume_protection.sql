-- Volumes that are protected from being deleted.

ALTER TABLE volumes ADD COLUMN delete_protection BOOLEAN DEFAULT false NOT NULL;

COMMENT ON COLUMN volumes.standalone IS 'made by createVolume, detached or protected once: it outlives the VMs it is attached to';
