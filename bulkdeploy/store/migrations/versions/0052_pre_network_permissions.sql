-- Accounts whose VMs may be in a network of another account.

CREATE TABLE network_permissions (
    network_id BIGINT NOT NULL,
    account_id BIGINT NOT NULL,
    CONSTRAINT pk_network_permissions PRIMARY KEY (network_id, account_id)
);

COMMENT ON COLUMN network_permissions.account_id IS 'not the owner, whose VMs may be in the network anyway';

CREATE INDEX ix_network_permissions_account_id ON network_permissions (account_id);
