-- Clients read back maxconnections of network offerings and zoneids of snapshot policies.

ALTER TABLE network_offerings ADD COLUMN max_connections INTEGER;

COMMENT ON COLUMN network_offerings.max_connections IS 'of load balancers, which there are none of; NULL: not set';

ALTER TABLE snapshot_policies ADD COLUMN names_zone BOOLEAN DEFAULT false NOT NULL;

COMMENT ON COLUMN snapshot_policies.names_zone IS 'whether the call named the zone of the volume, so that lists show the zone';
