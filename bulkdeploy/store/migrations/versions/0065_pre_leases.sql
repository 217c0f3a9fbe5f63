-- Virtual machines are stopped or destroyed when their lease expires.

ALTER TABLE service_offerings ADD COLUMN lease_days INTEGER;

COMMENT ON COLUMN service_offerings.lease_days IS 'the lease of its VMs; NULL: none';

ALTER TABLE service_offerings ADD COLUMN lease_action TEXT;

ALTER TABLE virtual_machines ADD COLUMN lease_expires TIMESTAMP WITH TIME ZONE;

COMMENT ON COLUMN virtual_machines.lease_expires IS 'NULL: no lease, or its action was taken';

ALTER TABLE virtual_machines ADD COLUMN lease_due TIMESTAMP WITH TIME ZONE;

COMMENT ON COLUMN virtual_machines.lease_due IS 'when the action is next tried';

ALTER TABLE virtual_machines ADD COLUMN lease_action TEXT;

CREATE INDEX ix_virtual_machines_lease_due ON virtual_machines (lease_due) WHERE lease_due IS NOT NULL;
