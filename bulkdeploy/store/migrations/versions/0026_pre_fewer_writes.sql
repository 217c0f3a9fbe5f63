-- What a VM costs in the write-ahead log: its changes of state, and of its pool's room, stay on their page, its nics have one index by VM
-- instead of two, and the outbox is read in the order of its key.

ALTER TABLE virtual_machines SET (fillfactor = 50);

ALTER TABLE storage_pools SET (fillfactor = 50);

CREATE UNIQUE INDEX uq_nics_device ON nics (vm_id, device_id, removed) NULLS NOT DISTINCT;

DROP INDEX uq_nics_live_device;

DROP INDEX ix_nics_vm_id;

DROP INDEX ix_outbox_created;
