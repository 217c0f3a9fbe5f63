-- A pool of Ceph has the user with whose secret its images are read and written. A storage pool whose use is above its
-- threshold takes no new volumes; its size is measured, too.

ALTER TABLE storage_pools ADD COLUMN user_name TEXT, ADD COLUMN secret_encrypted BYTEA,
    ADD COLUMN is_full BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE pool_usage ADD COLUMN total_bytes BIGINT;

COMMENT ON COLUMN storage_pools.user_name IS 'the user of Ceph';
COMMENT ON COLUMN storage_pools.secret_encrypted IS 'the secret of this user';
COMMENT ON COLUMN storage_pools.is_full IS 'it takes no new volumes';
COMMENT ON COLUMN pool_usage.total_bytes IS 'NULL: an earlier release measured it';
