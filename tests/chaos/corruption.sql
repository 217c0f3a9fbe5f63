-- Each promise of the audit that heal mends is broken by one of its statements here; dice choose whose rows. No
-- counter is made too small: hosts and pools would be promised more than they have, and no heal takes a promise back.

CREATE SCHEMA chaos;

-- One that runs and that no job works on.
CREATE FUNCTION chaos.some_vm(dice text) RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT uuid FROM virtual_machines
  WHERE state = 'Running' AND removed IS NULL AND id NOT IN (SELECT instance_id FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL)
  ORDER BY md5(id || dice) LIMIT 1
$$;

CREATE FUNCTION chaos.some_volume(dice text) RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT x.uuid FROM volumes x JOIN virtual_machines v ON v.id = x.vm_id
  WHERE v.uuid = chaos.some_vm(dice) AND x.removed IS NULL AND x.state = 'Ready' ORDER BY md5(x.id || dice) LIMIT 1
$$;

CREATE FUNCTION chaos.some_host(dice text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT host_id FROM host_capacity ORDER BY md5(host_id || dice) LIMIT 1
$$;

-- breaks: host_usage
UPDATE host_capacity SET vms_used = vms_used + 1, memory_mib_used = memory_mib_used + 512
  WHERE host_id = chaos.some_host(:dice);

-- breaks: account_clusters
UPDATE account_clusters SET vms = vms + 1
  WHERE (account_id, cluster_id) = (SELECT account_id, cluster_id FROM account_clusters ORDER BY md5(cluster_id || :dice) LIMIT 1);

-- breaks: claims_have_consumers
INSERT INTO host_claims (consumer, host_id, consumer_kind, account_id, cpu_mhz, memory_mib)
  SELECT gen_random_uuid(), chaos.some_host(:dice), 0, min(id), 500, 512 FROM accounts;

-- breaks: migrations_have_vms
INSERT INTO host_claims (consumer, host_id, consumer_kind, account_id, cpu_mhz, memory_mib)
  SELECT gen_random_uuid(), chaos.some_host(:dice), 1, min(id), 500, 512 FROM accounts;

-- breaks: reservations_have_jobs
INSERT INTO host_claims (consumer, host_id, consumer_kind, account_id, cpu_mhz, memory_mib)
  SELECT gen_random_uuid(), chaos.some_host(:dice), 2, min(id), 500, 512 FROM accounts;

-- breaks: nothing_is_stuck
UPDATE volumes SET removal_due = NULL
  WHERE id = (SELECT id FROM volumes WHERE state = 'Destroy' ORDER BY md5(id || :dice) LIMIT 1);

-- breaks: vms_have_claims
DELETE FROM host_claims WHERE consumer = chaos.some_vm(:dice);

-- breaks: vms_have_claims
UPDATE host_claims SET memory_mib = memory_mib - 64 WHERE consumer = chaos.some_vm(:dice);

-- breaks: pool_usage
UPDATE storage_pools SET allocated_bytes = allocated_bytes + 1024
  WHERE id = (SELECT id FROM storage_pools ORDER BY md5(id || :dice) LIMIT 1);

-- breaks: volumes_have_claims
DELETE FROM storage_claims WHERE consumer = chaos.some_volume(:dice);

-- breaks: volumes_have_claims
UPDATE storage_claims SET size_bytes = size_bytes - 1024 WHERE consumer = chaos.some_volume(:dice);

-- breaks: volumes_have_claims
INSERT INTO storage_claims (consumer, pool_id, size_bytes) SELECT gen_random_uuid(), min(id), 1024 FROM storage_pools;

-- breaks: what_is_over_holds_nothing
UPDATE virtual_machines SET compute_released = false
  WHERE id = (SELECT id FROM virtual_machines WHERE removed IS NOT NULL ORDER BY md5(id || :dice) LIMIT 1);

-- breaks: running_vms_have_their_volumes
UPDATE volumes SET state = 'Allocated' WHERE uuid = chaos.some_volume(:dice);

-- breaks: names_in_networks
UPDATE nics SET vm_name = 'wrong-' || id
  WHERE removed IS NULL AND vm_id = (SELECT id FROM virtual_machines WHERE uuid = chaos.some_vm(:dice));

-- breaks: address_books
DELETE FROM released_addresses
  WHERE (ip_range_id, ip_address) = (SELECT ip_range_id, ip_address FROM released_addresses ORDER BY md5(host(ip_address) || :dice) LIMIT 1);

-- breaks: addresses
INSERT INTO released_addresses (ip_range_id, ip_address)
  SELECT n.ip_range_id, n.ip_address FROM nics n JOIN virtual_machines v ON v.id = n.vm_id
  WHERE n.removed IS NULL AND n.ip_range_id IS NOT NULL AND v.uuid = chaos.some_vm(:dice) ON CONFLICT DO NOTHING;

-- breaks: account_counts
UPDATE resource_counts SET amount = amount + 1
  WHERE (owner_kind, owner_id, resource_type) = (SELECT owner_kind, owner_id, resource_type FROM resource_counts
  WHERE owner_kind = 'account' AND resource_type IN (0, 2, 8, 9) ORDER BY md5(resource_type || :dice) LIMIT 1);

-- breaks: domain_counts
UPDATE resource_counts SET amount = amount + 1
  WHERE (owner_kind, owner_id, resource_type) = (SELECT owner_kind, owner_id, resource_type FROM resource_counts
  WHERE owner_kind = 'domain' AND resource_type IN (0, 2, 8, 9) ORDER BY md5(resource_type || :dice) LIMIT 1);

-- breaks: vm_snapshots
INSERT INTO vm_snapshots (name, display_name, vm_id, account_id, snapshot_type, state, is_current)
  SELECT 'wrong', 'wrong', id, account_id, 'Disk', 'Creating', false FROM virtual_machines WHERE uuid = chaos.some_vm(:dice);

-- breaks: jobs_end_once
UPDATE async_jobs SET lease_until = now()
  WHERE id = (SELECT id FROM async_jobs WHERE status <> 0 ORDER BY id DESC LIMIT 1);

-- breaks: copies_are_made
WITH copy AS (INSERT INTO template_copies (template_uuid, pool_uuid, file_bytes, renewed)
  SELECT t.uuid, p.uuid, 8, now() - interval '2 hours' FROM templates t, storage_pools p
  ORDER BY md5(t.id::text || p.id || :dice) LIMIT 1 ON CONFLICT DO NOTHING RETURNING uuid, pool_uuid),
  claim AS (INSERT INTO storage_claims (consumer, pool_id, size_bytes)
  SELECT c.uuid, p.id, 8 FROM copy c JOIN storage_pools p ON p.uuid = c.pool_uuid)
UPDATE storage_pools SET allocated_bytes = allocated_bytes + 8 WHERE uuid IN (SELECT pool_uuid FROM copy);

-- breaks: no_orphans
INSERT INTO vm_affinity_groups SELECT -1 - ('x' || left(md5(:dice), 6))::bit(24)::int, min(id) FROM affinity_groups
  ON CONFLICT DO NOTHING;
