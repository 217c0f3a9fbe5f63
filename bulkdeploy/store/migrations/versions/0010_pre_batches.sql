-- Batches of unlike VMs: a deployment for each configuration, all but the first with the one that is the call.

ALTER TABLE deployments ADD COLUMN batch_id BIGINT;

COMMENT ON COLUMN deployments.batch_id IS 'the deployment that is the call; NULL: this one is a whole call';

COMMENT ON COLUMN deployments.config IS 'what its VMs share';

CREATE INDEX ix_deployments_batch_id ON deployments (batch_id);
