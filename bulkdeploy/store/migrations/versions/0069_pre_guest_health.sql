-- A managed deployment may have a health check: a replaced VM is available only if its guest answers the check. The
-- results are written while the VMs of the deployment are being replaced.

ALTER TABLE managed_deployments ADD COLUMN health_check TEXT, ADD COLUMN health_timeout INTEGER DEFAULT 300 NOT NULL;

CREATE TABLE guest_health (
    vm_id BIGINT NOT NULL,
    checked TIMESTAMP WITH TIME ZONE NOT NULL,
    answered TIMESTAMP WITH TIME ZONE,
    silent_since TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_guest_health PRIMARY KEY (vm_id)
);

COMMENT ON COLUMN managed_deployments.health_check IS 'the HealthCheck that guests of available VMs answer; NULL: there is none';
COMMENT ON COLUMN managed_deployments.health_timeout IS 'seconds after its start within which a guest must answer once';
COMMENT ON TABLE guest_health IS 'the health of guests that were replaced in managed deployments with a health check';
COMMENT ON COLUMN guest_health.checked IS 'when the newest check began';
COMMENT ON COLUMN guest_health.answered IS 'when the newest check with an answer began; NULL: no check had one';
COMMENT ON COLUMN guest_health.silent_since IS 'first check in a row without an answer; NULL: it answers';
COMMENT ON COLUMN replaced_vms.state IS 'Pending, Underway, Done, Failed or Counted';
