-- Guests that hypervisors run and no row owns, and their addresses, which are kept from being given out.

CREATE TABLE unmanaged_guests (
    guest_uuid UUID NOT NULL,
    let_go BOOLEAN DEFAULT false NOT NULL,
    noted TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_unmanaged_guests PRIMARY KEY (guest_uuid)
);

COMMENT ON TABLE unmanaged_guests IS 'guests that hypervisors run and no row owned when they were looked at last';

COMMENT ON COLUMN unmanaged_guests.let_go IS 'by unmanageVirtualMachine: it runs without a row because somebody wanted it so';

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
