-- VMs that are given the same name in one network at the same moment: one of them gets it. Nothing is filled: names
-- that were there before are found by who looks for them (store.deployment_facts.names_in_use), whatever stands here.

ALTER TABLE nics ADD COLUMN vm_name TEXT;

COMMENT ON COLUMN nics.vm_name IS 'its VM''s name in lower case, which no other VM gets in the network; NULL: a generated name, or the VM is destroyed';

CREATE UNIQUE INDEX uq_nics_live_vm_name ON nics (network_id, vm_name) WHERE removed IS NULL AND vm_name IS NOT NULL;
