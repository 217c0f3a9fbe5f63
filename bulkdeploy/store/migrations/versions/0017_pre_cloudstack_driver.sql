-- VMs and volumes that a cloud behind this one makes under ids that it gives once for ever.

CREATE TABLE counterparts (
    uuid UUID NOT NULL, 
    attempt INTEGER DEFAULT 1 NOT NULL, 
    root_uuid UUID, 
    CONSTRAINT pk_counterparts PRIMARY KEY (uuid)
);

COMMENT ON COLUMN counterparts.uuid IS 'our VM''s, or our volume''s';

COMMENT ON COLUMN counterparts.attempt IS 'says its id in the cloud';

COMMENT ON COLUMN counterparts.root_uuid IS 'our root volume of a VM, which has the cloud''s own id there';

CREATE INDEX ix_counterparts_root_uuid ON counterparts (root_uuid) WHERE root_uuid IS NOT NULL;
