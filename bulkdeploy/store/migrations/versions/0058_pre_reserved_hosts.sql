-- Migrations reserve their destinations before they begin: claims of kind 2.

CREATE INDEX IF NOT EXISTS ix_host_claims_of_jobs ON host_claims (consumer) WHERE consumer_kind <> 0;

DROP INDEX IF EXISTS ix_host_claims_migrations;

COMMENT ON COLUMN host_claims.consumer IS 'a VM''s or a job''s uuid';

COMMENT ON COLUMN host_claims.consumer_kind IS '0 VM, 1 migration, 2 reservation of a migration';
