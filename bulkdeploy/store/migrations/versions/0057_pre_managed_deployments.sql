-- Deployments with a desired number of VMs, which the sweeper keeps.

CREATE TABLE managed_deployments (
    deployment_id BIGINT NOT NULL,
    desired_count INTEGER NOT NULL,
    scale_in_policy TEXT NOT NULL,
    command TEXT NOT NULL,
    parameters JSONB NOT NULL,
    next_check TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    last_error TEXT,
    CONSTRAINT pk_managed_deployments PRIMARY KEY (deployment_id),
    CONSTRAINT fk_managed_deployments_deployment_id FOREIGN KEY (deployment_id) REFERENCES deployments (id)
);

COMMENT ON COLUMN managed_deployments.desired_count IS 'VMs that the deployment is to have';

COMMENT ON COLUMN managed_deployments.scale_in_policy IS 'a ScaleInPolicy';

COMMENT ON COLUMN managed_deployments.command IS 'the deploy call that made it';

COMMENT ON COLUMN managed_deployments.parameters IS 'that call''s parameters, by which more VMs are deployed';

COMMENT ON COLUMN managed_deployments.next_check IS 'when the sweeper next compares the VMs with the desired count';

COMMENT ON COLUMN managed_deployments.failures IS 'failed tries in a row';

COMMENT ON COLUMN managed_deployments.last_error IS 'why the last try failed; NULL: it did not';

ALTER TABLE deployments ADD COLUMN grown_from BIGINT;

COMMENT ON COLUMN deployments.grown_from IS 'the managed deployment that this one adds VMs to; NULL: it adds to none';

CREATE INDEX ix_deployments_grown_from ON deployments (grown_from) WHERE grown_from IS NOT NULL;
