-- Guests that hypervisors run and no row owns, and their addresses, which are kept from being given out.

CREATE TABLE unmanaged_guests (
    guest_uuid UUID NOT NULL,
    let_go BOOLEAN DEFAULT false NOT NULL,
    noted TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_unmanaged_guests PRIMARY KEY (guest_uuid)
);

COMMENT ON TABLE unmanaged_guests IS 'guests that hypervisors run and no row owned when they were looked at last';

COMMENT ON COLUMN unmanaged_guests.let_go IS 'let go by unmanageVirtualMachine: it runs without a row on purpose';

CREATE TABLE unmanaged_addresses (
    guest_uuid UUID NOT NULL,
    network_id BIGINT NOT NULL,
    ip_address INET NOT NULL,
    CONSTRAINT pk_unmanaged_addresses PRIMARY KEY (guest_uuid, network_id, ip_address),
    CONSTRAINT fk_unmanaged_addresses_guest_uuid FOREIGN KEY (guest_uuid)
        REFERENCES unmanaged_guests (guest_uuid) ON DELETE CASCADE
);

COMMENT ON TABLE unmanaged_addresses IS 'addresses of those guests, which no nic gets';

CREATE INDEX ix_unmanaged_addresses_address ON unmanaged_addresses (network_id, ip_address);

-- How many VMs an account has is kept; those that are not in that number are few, and found by an index that no change of state writes
-- to but the last ones. A generated column would say the same, and have the table written anew while all calls wait.

ALTER TABLE virtual_machines ADD COLUMN gone BOOLEAN DEFAULT false NOT NULL;

COMMENT ON COLUMN virtual_machines.gone IS 'an index of the state itself would be written to at each change of it; kept by a trigger';

UPDATE virtual_machines SET gone = true WHERE state IN ('Destroyed', 'Expunging') AND removed IS NULL;

CREATE FUNCTION set_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.gone := NEW.state IN ('Destroyed', 'Expunging');
    RETURN NEW;
END
$$;

CREATE TRIGGER set_gone BEFORE INSERT OR UPDATE OF state ON virtual_machines
    FOR EACH ROW WHEN (NEW.gone <> (NEW.state IN ('Destroyed', 'Expunging'))) EXECUTE FUNCTION set_gone();

CREATE INDEX ix_virtual_machines_uncounted ON virtual_machines (account_id) WHERE removed IS NULL AND (compute_released OR gone);
