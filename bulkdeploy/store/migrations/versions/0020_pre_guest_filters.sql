-- Which rules of security groups running guests have: those that differ are given anew.

CREATE TABLE guest_filters (
    vm_id BIGINT NOT NULL CONSTRAINT pk_guest_filters PRIMARY KEY,
    digest TEXT,
    vm_updated TIMESTAMP WITH TIME ZONE NOT NULL,
    version BIGINT DEFAULT 1 NOT NULL
);

COMMENT ON TABLE guest_filters IS 'the security group rules that running guests were given';
COMMENT ON COLUMN guest_filters.digest IS 'of the rules that its guest has; NULL: not known';
COMMENT ON COLUMN guest_filters.vm_updated IS 'the VM''s; a later one began anew';
COMMENT ON COLUMN guest_filters.version IS 'grows with every write';
