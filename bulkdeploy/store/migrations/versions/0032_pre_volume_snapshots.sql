-- Snapshots of one volume of a VM, beside those of all.

ALTER TABLE vm_snapshots ADD COLUMN volume_id BIGINT;

CREATE INDEX ix_vm_snapshots_volume_id ON vm_snapshots (volume_id) WHERE volume_id IS NOT NULL;

COMMENT ON COLUMN vm_snapshots.volume_id IS 'the one volume that it is of; NULL: all of its VM';
