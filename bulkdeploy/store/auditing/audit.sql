-- The invariants of the ledger. Each has a count of what is compared and a query for what breaks it,
-- which answers one text per breach and nothing on an intact system. Where a statement mends it, that is its heal: it
-- mends at most :batch rows and answers how many; what a job works on it leaves alone. Where it names :vm or :host, it
-- can be kept to one. What it leaves, or all, is mended by hand as the next line says.
-- Claims come before what counts them: no counter is lowered, and its room given to others, while a claim is missing.

-- invariant: claims_have_consumers
-- promise: every host claim belongs to a living VM that is, is about to be, or is still being removed from that host
-- compared:
SELECT count(*) FROM host_claims;
-- breaches:
SELECT format('claim of %s on host %s: %s', x.consumer, x.host_id, coalesce( 'VM is ' || v.state || ' on host ' || coalesce(v.host_id::text, 'none'), 'no such VM'))
  FROM host_claims x
  LEFT JOIN virtual_machines v ON v.uuid = x.consumer
  WHERE x.consumer_kind = 0 AND (v.id IS NULL OR v.removed IS NOT NULL OR v.host_id IS DISTINCT FROM x.host_id OR v.state IN ('Destroyed', 'Error') OR (v.state = 'Stopped' AND v.id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL)));
-- heal:
WITH wrong AS (SELECT x.consumer, v.id
  FROM host_claims x
  LEFT JOIN virtual_machines v ON v.uuid = x.consumer
  WHERE x.consumer_kind = 0 AND (v.id IS NULL OR ((v.removed IS NOT NULL OR v.host_id IS DISTINCT FROM x.host_id OR v.state IN ('Destroyed', 'Error', 'Stopped')) AND v.id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL))) AND (CAST(:vm AS uuid) IS NULL OR v.uuid = CAST(:vm AS uuid)) AND (CAST(:host AS bigint) IS NULL OR x.host_id = CAST(:host AS bigint))
  ORDER BY x.consumer LIMIT :batch), left_host AS (UPDATE virtual_machines v
  SET last_host_id = v.host_id, host_id = NULL
  FROM wrong w
  WHERE v.id = w.id AND v.state IN ('Destroyed', 'Error', 'Stopped')), healed AS (DELETE FROM host_claims
  WHERE consumer IN (SELECT consumer FROM wrong) RETURNING 1)
  SELECT count(*) FROM healed;

-- invariant: migrations_have_vms
-- promise: every migration's claim belongs to a job under way whose VM migrates to another host
-- compared:
SELECT count(*) FROM host_claims WHERE consumer_kind = 1;
-- breaches:
SELECT format('migration %s claims host %s: %s', x.consumer, x.host_id, coalesce('its job has status ' || j.status || ', its VM is ' || v.state || ' on host ' || coalesce(v.host_id::text, 'none'), 'no such job'))
  FROM host_claims x
  LEFT JOIN async_jobs j ON j.uuid = x.consumer
  LEFT JOIN virtual_machines v ON v.id = j.instance_id AND j.instance_type = 'VirtualMachine'
  WHERE x.consumer_kind = 1 AND (v.id IS NULL OR v.removed IS NOT NULL OR j.status <> 0 OR v.state <> 'Migrating' OR v.host_id IS NULL OR v.host_id = x.host_id);
-- heal:
WITH wrong AS (SELECT x.consumer
  FROM host_claims x
  LEFT JOIN async_jobs j ON j.uuid = x.consumer
  LEFT JOIN virtual_machines v ON v.id = j.instance_id AND j.instance_type = 'VirtualMachine'
  WHERE x.consumer_kind = 1 AND (j.id IS NULL OR j.status <> 0) AND (v.id IS NULL OR v.removed IS NOT NULL OR v.state <> 'Migrating') AND (CAST(:vm AS uuid) IS NULL OR v.uuid = CAST(:vm AS uuid)) AND (CAST(:host AS bigint) IS NULL OR x.host_id = CAST(:host AS bigint))
  ORDER BY x.consumer LIMIT :batch), healed AS (DELETE FROM host_claims
  WHERE consumer IN (SELECT consumer FROM wrong) RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: stop the virtual machine with stopVirtualMachine and forced=true: a migration without a job ends there

-- invariant: reservations_have_jobs
-- promise: every host that is reserved for a migration which has not begun belongs to its unfinished job
-- compared:
SELECT count(*) FROM host_claims WHERE consumer_kind = 2;
-- breaches:
SELECT format('job %s reserves host %s: %s', x.consumer, x.host_id, coalesce('it has status ' || j.status, 'there is no such job'))
  FROM host_claims x
  LEFT JOIN async_jobs j ON j.uuid = x.consumer
  WHERE x.consumer_kind = 2 AND (j.id IS NULL OR j.status <> 0);
-- heal:
WITH wrong AS (SELECT x.consumer
  FROM host_claims x
  LEFT JOIN async_jobs j ON j.uuid = x.consumer
  LEFT JOIN virtual_machines v ON v.id = j.instance_id AND j.instance_type = 'VirtualMachine'
  WHERE x.consumer_kind = 2 AND (j.id IS NULL OR j.status <> 0) AND (CAST(:vm AS uuid) IS NULL OR v.uuid = CAST(:vm AS uuid)) AND (CAST(:host AS bigint) IS NULL OR x.host_id = CAST(:host AS bigint))
  ORDER BY x.consumer LIMIT :batch), healed AS (DELETE FROM host_claims
  WHERE consumer IN (SELECT consumer FROM wrong) RETURNING 1)
  SELECT count(*) FROM healed;

-- invariant: nothing_is_stuck
-- promise: a VM that is being removed, or whose state is unknown, has a job, or had one within the last hour; so are destroyed volumes seen to
-- compared:
SELECT (SELECT count(*) FROM virtual_machines WHERE state IN ('Expunging', 'Unknown') AND removed IS NULL) + (SELECT count(*) FROM volumes WHERE state = 'Destroy');
-- breaches:
SELECT format('VM %s is %s since %s and no job sees to it', v.uuid, v.state, v.updated)
  FROM virtual_machines v
  WHERE v.state IN ('Expunging', 'Unknown') AND v.removed IS NULL AND v.updated < now() - interval '1 hour' AND NOT EXISTS (SELECT
  FROM async_jobs j
  WHERE j.instance_id = v.id AND j.instance_type = 'VirtualMachine' AND (j.status = 0 OR j.completed > now() - interval '1 hour'))
  UNION ALL SELECT format('volume %s is Destroy since %s and no job removes it', uuid, removed)
  FROM volumes
  WHERE state = 'Destroy' AND coalesce(removal_due < now() - interval '1 hour', true);
-- heal:
WITH wrong AS (SELECT id
  FROM volumes
  WHERE state = 'Destroy' AND coalesce(removal_due < now() - interval '1 hour', true)
  ORDER BY id LIMIT :batch), healed AS (UPDATE volumes
  SET removal_due = now()
  WHERE id IN (SELECT id FROM wrong) RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: give the virtual machine a job: destroyVirtualMachine with expunge=true, or stopVirtualMachine with forced=true

-- invariant: vms_have_claims
-- promise: every VM on a host holds exactly the claim that its size asks for
-- compared:
SELECT count(*) FROM virtual_machines WHERE host_id IS NOT NULL;
-- breaches:
SELECT format('VM %s on host %s: %s', v.uuid, v.host_id, CASE WHEN x.consumer IS NULL THEN 'no claim' ELSE format('claims %s MHz, %s MiB on host %s', x.cpu_mhz, x.memory_mib, x.host_id) END)
  FROM virtual_machines v
  LEFT JOIN host_claims x ON x.consumer = v.uuid
  WHERE v.host_id IS NOT NULL AND (x.host_id, x.cpu_mhz, x.memory_mib) IS DISTINCT FROM (v.host_id, (v.cpu_number * v.cpu_mhz)::bigint, v.memory_mib::bigint);
-- heal:
WITH wrong AS (SELECT v.uuid, v.host_id, v.account_id, (v.cpu_number * v.cpu_mhz)::bigint AS cpu_mhz, v.memory_mib::bigint AS memory_mib
  FROM virtual_machines v
  JOIN host_capacity c ON c.host_id = v.host_id
  LEFT JOIN host_claims x ON x.consumer = v.uuid
  WHERE v.removed IS NULL AND v.state NOT IN ('Destroyed', 'Error', 'Stopped') AND (x.host_id, x.cpu_mhz, x.memory_mib) IS DISTINCT FROM (v.host_id, (v.cpu_number * v.cpu_mhz)::bigint, v.memory_mib::bigint) AND v.id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL) AND (CAST(:vm AS uuid) IS NULL OR v.uuid = CAST(:vm AS uuid)) AND (CAST(:host AS bigint) IS NULL OR v.host_id = CAST(:host AS bigint))
  ORDER BY v.uuid LIMIT :batch), healed AS (INSERT INTO host_claims (consumer, host_id, consumer_kind, account_id, cpu_mhz, memory_mib)
  SELECT uuid, host_id, 0, account_id, cpu_mhz, memory_mib
  FROM wrong ON CONFLICT (consumer) DO UPDATE SET host_id = excluded.host_id, account_id = excluded.account_id, cpu_mhz = excluded.cpu_mhz, memory_mib = excluded.memory_mib RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: destroy or start the virtual machine: it is over or stopped, and its row names a host

-- invariant: host_usage
-- promise: what each host counts as used is the sum of its claims
-- compared:
SELECT count(*) FROM host_capacity;
-- breaches:
SELECT format('host %s: counts %s MHz, %s MiB, %s VMs, claims %s MHz, %s MiB, %s VMs', h.name, c.cpu_mhz_used, c.memory_mib_used, c.vms_used, s.cpu, s.memory, s.vms)
  FROM host_capacity c
  JOIN hosts h ON h.id = c.host_id
  CROSS JOIN LATERAL (SELECT coalesce(sum(cpu_mhz), 0) AS cpu, coalesce(sum(memory_mib), 0) AS memory, count(*) AS vms
  FROM host_claims x
  WHERE x.host_id = c.host_id) s
  WHERE (c.cpu_mhz_used, c.memory_mib_used, c.vms_used) IS DISTINCT FROM (s.cpu, s.memory, s.vms);
-- heal:
WITH wrong AS (SELECT c.host_id, coalesce(sum(x.cpu_mhz), 0) AS cpu, coalesce(sum(x.memory_mib), 0) AS memory, count(x.consumer) AS vms
  FROM host_capacity c
  LEFT JOIN host_claims x ON x.host_id = c.host_id
  WHERE (CAST(:host AS bigint) IS NULL OR c.host_id = CAST(:host AS bigint))
  GROUP BY c.host_id HAVING (c.cpu_mhz_used, c.memory_mib_used, c.vms_used) IS DISTINCT FROM (coalesce(sum(x.cpu_mhz), 0), coalesce(sum(x.memory_mib), 0), count(x.consumer))
  ORDER BY c.host_id LIMIT :batch), healed AS (UPDATE host_capacity c
  SET cpu_mhz_used = w.cpu, memory_mib_used = w.memory, vms_used = w.vms
  FROM wrong w
  WHERE w.host_id = c.host_id RETURNING 1)
  SELECT count(*) FROM healed;

-- invariant: host_limits
-- promise: no host is promised more than its limit
-- compared:
SELECT count(*) FROM host_capacity;
-- breaches:
SELECT format('host %s: %s of %s MHz, %s of %s MiB, %s of %s VMs', h.name, cpu_mhz_used, cpu_mhz_limit, memory_mib_used, memory_mib_limit, vms_used, vms_limit)
  FROM host_capacity c
  JOIN hosts h ON h.id = c.host_id
  WHERE cpu_mhz_used > cpu_mhz_limit OR memory_mib_used > memory_mib_limit OR vms_used > vms_limit;
-- by hand: move virtual machines off the host (migrateVirtualMachine, migrateHost), or raise its cluster's over-commit

-- invariant: account_clusters
-- promise: what is counted of each account's VMs in a cluster is what it claims on the hosts there
-- compared:
SELECT count(*) FROM account_clusters;
-- breaches:
SELECT format('account %s, cluster %s: counted %s VMs, found %s', coalesce(c.account_id, f.account_id), coalesce(c.cluster_id, f.cluster_id), coalesce(c.vms, 0), coalesce(f.vms, 0))
  FROM account_clusters c
  FULL JOIN (SELECT x.account_id, h.cluster_id, count(*) AS vms
  FROM host_claims x
  JOIN hosts h ON h.id = x.host_id
  GROUP BY 1, 2) f ON f.account_id = c.account_id AND f.cluster_id = c.cluster_id
  WHERE coalesce(c.vms, 0) <> coalesce(f.vms, 0);
-- heal:
WITH wrong AS (SELECT coalesce(c.account_id, f.account_id) AS account_id, coalesce(c.cluster_id, f.cluster_id) AS cluster_id, coalesce(f.vms, 0) AS vms
  FROM account_clusters c
  FULL JOIN (SELECT x.account_id, h.cluster_id, count(*) AS vms
  FROM host_claims x
  JOIN hosts h ON h.id = x.host_id
  GROUP BY 1, 2) f ON f.account_id = c.account_id AND f.cluster_id = c.cluster_id
  WHERE coalesce(c.vms, 0) <> coalesce(f.vms, 0)
  ORDER BY 1, 2 LIMIT :batch), healed AS (INSERT INTO account_clusters (account_id, cluster_id, vms)
  SELECT account_id, cluster_id, vms
  FROM wrong ON CONFLICT (account_id, cluster_id) DO UPDATE SET vms = excluded.vms RETURNING 1)
  SELECT count(*) FROM healed;

-- invariant: vms_fit_hosts
-- promise: no VM has more cores than the host it is on, or faster ones
-- compared:
SELECT count(*) FROM virtual_machines WHERE host_id IS NOT NULL;
-- breaches:
SELECT format('VM %s has %s cores of %s MHz, host %s %s of %s MHz', v.uuid, v.cpu_number, v.cpu_mhz, h.name, h.cpu_cores, h.cpu_mhz)
  FROM virtual_machines v
  JOIN hosts h ON h.id = v.host_id
  WHERE v.cpu_number > h.cpu_cores OR v.cpu_mhz > h.cpu_mhz;
-- by hand: stop the virtual machine and give it a smaller offering (scaleVirtualMachine), or migrate it to a larger host

-- invariant: volumes_have_claims
-- promise: storage claims are the same, one for one, as volumes in pools, destroyed ones until they are gone, and copies of templates
-- compared:
SELECT count(*) FROM storage_claims;
-- breaches:
SELECT format('volume %s: row says pool %s, %s bytes, claim says pool %s, %s bytes', coalesce(v.uuid, x.consumer), v.pool_id, v.size_bytes, x.pool_id, x.size_bytes)
  FROM (SELECT uuid, pool_id, size_bytes, vm_id
  FROM volumes
  WHERE (removed IS NULL OR state = 'Destroy') AND pool_id IS NOT NULL UNION ALL SELECT c.uuid, p.id, c.file_bytes, NULL
  FROM template_copies c
  JOIN storage_pools p ON p.uuid = c.pool_uuid
  WHERE c.file_bytes IS NOT NULL) v
  FULL JOIN storage_claims x ON x.consumer = v.uuid
  WHERE (v.pool_id, v.size_bytes) IS DISTINCT FROM (x.pool_id, x.size_bytes);
-- heal:
WITH wrong AS (SELECT coalesce(v.uuid, x.consumer) AS volume, v.pool_id, v.size_bytes
  FROM (SELECT uuid, pool_id, size_bytes, vm_id
  FROM volumes
  WHERE (removed IS NULL OR state = 'Destroy') AND pool_id IS NOT NULL UNION ALL SELECT c.uuid, p.id, c.file_bytes, NULL
  FROM template_copies c
  JOIN storage_pools p ON p.uuid = c.pool_uuid
  WHERE c.file_bytes IS NOT NULL) v
  FULL JOIN storage_claims x ON x.consumer = v.uuid
  WHERE (v.pool_id, v.size_bytes) IS DISTINCT FROM (x.pool_id, x.size_bytes) AND coalesce(v.vm_id, 0) NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL)
  ORDER BY 1 LIMIT :batch), gone AS (DELETE FROM storage_claims
  WHERE consumer IN (SELECT volume FROM wrong WHERE pool_id IS NULL) RETURNING 1), kept AS (INSERT INTO storage_claims (consumer, pool_id, size_bytes)
  SELECT volume, pool_id, size_bytes
  FROM wrong
  WHERE pool_id IN (SELECT id FROM storage_pools) ON CONFLICT (consumer) DO UPDATE SET pool_id = excluded.pool_id, size_bytes = excluded.size_bytes RETURNING 1)
  SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM kept);
-- by hand: the pool that a volume's row names does not exist: restore it from a backup

-- invariant: copies_are_made
-- promise: a copy of a template that nobody makes any more claims nothing of its pool
-- compared:
SELECT count(*) FROM template_copies;
-- breaches:
SELECT format('template %s, pool %s: attempt %s at a copy is silent since %s and claims %s bytes', template_uuid, pool_uuid, attempt, renewed, file_bytes)
  FROM template_copies
  WHERE NOT ready AND file_bytes IS NOT NULL AND renewed < now() - interval '1 hour';
-- heal:
WITH silent AS (SELECT uuid
  FROM template_copies
  WHERE NOT ready AND file_bytes IS NOT NULL AND renewed < now() - interval '1 hour'
  ORDER BY uuid LIMIT :batch), freed AS (UPDATE template_copies
  SET file_bytes = NULL
  WHERE uuid IN (SELECT uuid FROM silent) RETURNING uuid), gone AS (DELETE FROM storage_claims
  WHERE consumer IN (SELECT uuid FROM freed) RETURNING pool_id, size_bytes), pools AS (UPDATE storage_pools p
  SET allocated_bytes = allocated_bytes - s.size
  FROM (SELECT pool_id, sum(size_bytes) AS size
  FROM gone
  GROUP BY pool_id) s
  WHERE p.id = s.pool_id)
  SELECT count(*) FROM freed;
-- by hand: a part of its file, template-UUID-ATTEMPT, may be in the pool; the next VM that is made from the template removes it

-- invariant: pool_usage
-- promise: what each pool counts as allocated is the sum of its claims
-- compared:
SELECT count(*) FROM storage_pools;
-- breaches:
SELECT format('pool %s: counts %s bytes, claims %s bytes', p.name, p.allocated_bytes, s.size)
  FROM storage_pools p
  CROSS JOIN LATERAL (SELECT coalesce(sum(size_bytes), 0) AS size
  FROM storage_claims x
  WHERE x.pool_id = p.id) s
  WHERE p.allocated_bytes <> s.size;
-- heal:
WITH wrong AS (SELECT p.id, coalesce(sum(x.size_bytes), 0) AS size
  FROM storage_pools p
  LEFT JOIN storage_claims x ON x.pool_id = p.id
  GROUP BY p.id HAVING p.allocated_bytes <> coalesce(sum(x.size_bytes), 0)
  ORDER BY p.id LIMIT :batch), healed AS (UPDATE storage_pools p
  SET allocated_bytes = w.size
  FROM wrong w
  WHERE w.id = p.id RETURNING 1)
  SELECT count(*) FROM healed;

-- invariant: what_is_over_holds_nothing
-- promise: a VM that is gone, or whose deployment failed, holds no volume, address, count or claim
-- compared:
SELECT count(*) FROM virtual_machines WHERE removed IS NOT NULL OR state = 'Error';
-- breaches:
SELECT format('VM %s is %s and still holds %s', v.uuid, CASE WHEN v.removed IS NULL THEN v.state ELSE 'gone' END, h.what)
  FROM virtual_machines v
  CROSS JOIN LATERAL (SELECT 'volume ' || x.uuid AS what
  FROM volumes x
  WHERE x.vm_id = v.id AND x.removed IS NULL
  UNION ALL SELECT 'address ' || x.ip_address
  FROM nics x
  WHERE x.vm_id = v.id AND x.removed IS NULL
  UNION ALL SELECT 'secondary address ' || s.ip_address
  FROM nic_secondary_ips s
  JOIN nics x ON x.id = s.nic_id
  WHERE x.vm_id = v.id
  UNION ALL SELECT 'its counts'
  WHERE NOT v.compute_released
  UNION ALL SELECT 'a claim on host ' || x.host_id
  FROM host_claims x
  WHERE x.consumer = v.uuid) h
  WHERE v.removed IS NOT NULL OR v.state = 'Error';
-- heal:
WITH over AS (SELECT v.id
  FROM virtual_machines v
  WHERE (v.removed IS NOT NULL OR v.state = 'Error') AND v.id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL) AND (CAST(:vm AS uuid) IS NULL OR v.uuid = CAST(:vm AS uuid)) AND (NOT v.compute_released OR EXISTS (SELECT
  FROM nics n
  WHERE n.vm_id = v.id AND n.removed IS NULL))
  ORDER BY v.id LIMIT :batch), addresses AS (DELETE FROM nic_secondary_ips
  WHERE nic_id IN (SELECT n.id FROM nics n JOIN over ON over.id = n.vm_id)), unplugged AS (UPDATE nics
  SET removed = now()
  WHERE vm_id IN (SELECT id FROM over) AND removed IS NULL), healed AS (UPDATE virtual_machines
  SET compute_released = true
  WHERE id IN (SELECT id FROM over) RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: what is on a volume is not heal's to throw away: keep it, or remove it with destroyVolume

-- invariant: running_vms_have_their_volumes
-- promise: the volumes of a running VM are Ready and have a pool; only a job under way is Attaching one
-- compared:
SELECT count(*) FROM volumes x JOIN virtual_machines v ON v.id = x.vm_id WHERE v.state = 'Running' AND x.removed IS NULL;
-- breaches:
SELECT format('volume %s of running VM %s is %s in pool %s', x.uuid, v.uuid, x.state, coalesce(x.pool_id::text, 'none'))
  FROM volumes x
  JOIN virtual_machines v ON v.id = x.vm_id
  WHERE v.state = 'Running' AND x.removed IS NULL AND (x.state <> 'Ready' OR x.pool_id IS NULL) AND NOT (x.state = 'Attaching' AND x.pool_id IS NOT NULL AND v.id IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL));
-- heal:
WITH wrong AS (SELECT x.id
  FROM volumes x
  JOIN virtual_machines v ON v.id = x.vm_id
  WHERE v.state = 'Running' AND x.removed IS NULL AND x.state <> 'Ready' AND x.pool_id IS NOT NULL AND v.id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL) AND (CAST(:vm AS uuid) IS NULL OR v.uuid = CAST(:vm AS uuid)) AND (CAST(:host AS bigint) IS NULL OR v.host_id = CAST(:host AS bigint))
  ORDER BY x.id LIMIT :batch), healed AS (UPDATE volumes
  SET state = 'Ready'
  WHERE id IN (SELECT id FROM wrong) RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: stop and start the virtual machine: a volume without a pool gets one then

-- invariant: unique_addresses
-- promise: no two live nics have one MAC address, or one address in one network, be it their first or a secondary one
-- compared:
SELECT count(*) FROM nics WHERE removed IS NULL;
-- breaches:
SELECT format('address %s of network %s: %s live nics', n.ip_address, n.network_id, count(*))
  FROM (SELECT network_id, ip_address FROM nics WHERE removed IS NULL AND ip_address IS NOT NULL
  UNION ALL SELECT network_id, ip_address FROM nic_secondary_ips) n
  GROUP BY n.network_id, n.ip_address HAVING count(*) > 1
  UNION ALL SELECT format('MAC address %s: %s live nics', n.mac_address, count(*))
  FROM nics n
  WHERE n.removed IS NULL
  GROUP BY n.mac_address HAVING count(*) > 1;
-- by hand: give all but one of the nics another address with updateVmNicIp, or remove them

-- invariant: names_in_networks
-- promise: no two VMs of one network have one name; what a nic holds of it is its VM's, and of destroyed ones nothing
-- compared:
SELECT count(*) FROM nics WHERE removed IS NULL;
-- breaches:
SELECT format('network %s: %s VMs are called %s', n.network_id, count(*), lower(v.name))
  FROM nics n
  JOIN virtual_machines v ON v.id = n.vm_id
  WHERE n.removed IS NULL AND v.removed IS NULL AND v.state NOT IN ('Destroyed', 'Expunging')
  GROUP BY n.network_id, lower(v.name) HAVING count(*) > 1
  UNION ALL SELECT format('nic %s of VM %s (%s, %s) holds the name %s', n.uuid, v.uuid, v.name, v.state, n.vm_name)
  FROM nics n
  JOIN virtual_machines v ON v.id = n.vm_id
  WHERE n.removed IS NULL AND n.vm_name IS NOT NULL AND (n.vm_name <> lower(v.name) OR v.state IN ('Destroyed', 'Expunging'));
-- heal:
WITH wrong AS (SELECT n.id, CASE WHEN v.state IN ('Destroyed', 'Expunging') THEN NULL ELSE lower(v.name) END AS name
  FROM nics n
  JOIN virtual_machines v ON v.id = n.vm_id
  WHERE n.removed IS NULL AND n.vm_name IS NOT NULL AND (n.vm_name <> lower(v.name) OR v.state IN ('Destroyed', 'Expunging')) AND NOT EXISTS (SELECT
  FROM nics m
  JOIN virtual_machines o ON o.id = m.vm_id
  WHERE m.network_id = n.network_id AND m.removed IS NULL AND m.id <> n.id AND lower(v.name) IN (m.vm_name, lower(o.name)))
  ORDER BY n.id LIMIT :batch), healed AS (UPDATE nics n
  SET vm_name = w.name
  FROM wrong w
  WHERE w.id = n.id RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: rename all but one of the virtual machines with updateVirtualMachine

-- invariant: address_books
-- promise: every address that a range ever handed out is in use or listed as free; the gateway is neither
-- compared:
SELECT count(*) FROM ip_ranges WHERE removed IS NULL;
-- breaches:
SELECT format('range %s from %s: %s handed out, %s in use, %s free', r.uuid, host(r.start_ip), r.handed_out, u.used, f.free)
  FROM (SELECT i.id, i.uuid, i.start_ip, i.next_ip, i.next_ip - i.start_ip - (coalesce(CAST(i.gateway AS inet) >= i.start_ip AND CAST(i.gateway AS inet) < i.next_ip, false))::int AS handed_out
  FROM ip_ranges i
  WHERE i.removed IS NULL) r
  CROSS JOIN LATERAL (SELECT count(*) AS used
  FROM (SELECT n.ip_address FROM nics n WHERE n.ip_range_id = r.id AND n.removed IS NULL
  UNION ALL SELECT s.ip_address FROM nic_secondary_ips s WHERE s.ip_range_id = r.id) n
  WHERE n.ip_address < r.next_ip) u
  CROSS JOIN LATERAL (SELECT count(*) AS free
  FROM released_addresses x
  WHERE x.ip_range_id = r.id AND x.ip_address < r.next_ip) f
  WHERE r.handed_out <> u.used + f.free;
-- heal:
WITH missing AS (SELECT r.id, r.start_ip + n AS ip
  FROM ip_ranges r
  CROSS JOIN LATERAL generate_series(0, r.next_ip - r.start_ip - 1) n
  WHERE r.removed IS NULL AND r.start_ip + n IS DISTINCT FROM CAST(r.gateway AS inet) AND NOT EXISTS (SELECT
  FROM nics u
  WHERE u.ip_range_id = r.id AND u.ip_address = r.start_ip + n AND u.removed IS NULL) AND NOT EXISTS (SELECT
  FROM nic_secondary_ips u
  WHERE u.ip_range_id = r.id AND u.ip_address = r.start_ip + n) AND NOT EXISTS (SELECT
  FROM released_addresses f
  WHERE f.ip_range_id = r.id AND f.ip_address = r.start_ip + n)
  ORDER BY 1, 2 LIMIT :batch), healed AS (INSERT INTO released_addresses (ip_range_id, ip_address)
  SELECT id, ip
  FROM missing RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: nics share an address: give all but one of them another with updateVmNicIp

-- invariant: addresses
-- promise: an address is in use or free, inside its range, and never both or twice
-- compared:
SELECT count(*) FROM nics WHERE removed IS NULL;
-- breaches:
SELECT format('address %s of nic %s: %s', n.ip_address, n.uuid, CASE WHEN f.ip_address IS NOT NULL THEN 'also listed as free' WHEN v.removed IS NOT NULL THEN 'its VM is gone' ELSE 'outside its range' END)
  FROM nics n
  LEFT JOIN ip_ranges r ON r.id = n.ip_range_id
  LEFT JOIN released_addresses f ON f.ip_range_id = n.ip_range_id AND f.ip_address = n.ip_address
  LEFT JOIN virtual_machines v ON v.id = n.vm_id
  WHERE n.removed IS NULL AND (f.ip_address IS NOT NULL OR v.id IS NULL OR v.removed IS NOT NULL OR v.state = 'Error' OR NOT n.ip_address BETWEEN r.start_ip AND r.end_ip)
  UNION ALL SELECT format('secondary address %s of nic %s: %s', s.ip_address, n.uuid, CASE WHEN f.ip_address IS NOT NULL THEN 'also listed as free' WHEN n.id IS NULL OR n.removed IS NOT NULL THEN 'its nic is gone' ELSE 'outside its range, or of another network' END)
  FROM nic_secondary_ips s
  LEFT JOIN nics n ON n.id = s.nic_id
  LEFT JOIN ip_ranges r ON r.id = s.ip_range_id
  LEFT JOIN released_addresses f ON f.ip_range_id = s.ip_range_id AND f.ip_address = s.ip_address
  WHERE f.ip_address IS NOT NULL OR n.id IS NULL OR n.removed IS NOT NULL OR n.network_id <> s.network_id OR r.id IS NULL OR NOT s.ip_address BETWEEN r.start_ip AND r.end_ip;
-- heal:
WITH used AS (SELECT f.ip_range_id, f.ip_address
  FROM released_addresses f
  WHERE EXISTS (SELECT
  FROM nics n
  WHERE n.ip_range_id = f.ip_range_id AND n.ip_address = f.ip_address AND n.removed IS NULL) OR EXISTS (SELECT
  FROM nic_secondary_ips s
  WHERE s.ip_range_id = f.ip_range_id AND s.ip_address = f.ip_address)
  ORDER BY 1, 2 LIMIT :batch), healed AS (DELETE FROM released_addresses f
  USING used
  WHERE used.ip_range_id = f.ip_range_id AND used.ip_address = f.ip_address RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: give the nic an address inside its range with updateVmNicIp, or remove the nic

-- invariant: account_counts
-- promise: resource counts of accounts are what their VMs and volumes add up to
-- compared:
SELECT count(*) FROM resource_counts WHERE owner_kind = 'account';
-- breaches:
SELECT format('account %s, resource type %s: counted %s, found %s', coalesce(c.owner_id, f.account_id), coalesce(c.resource_type, f.kind), coalesce(c.amount, 0), coalesce(f.amount, 0))
  FROM (SELECT *
  FROM resource_counts
  WHERE owner_kind = 'account' AND resource_type IN (0, 2, 8, 9, 10)) c
  FULL JOIN (SELECT account_id, kind, sum(amount) AS amount
  FROM (SELECT account_id, u.kind, u.amount
  FROM virtual_machines v, LATERAL (VALUES (0, 1), (8, v.cpu_number), (9, v.memory_mib)) u(kind, amount)
  WHERE NOT v.compute_released AND v.removed IS NULL
  UNION ALL SELECT account_id, u.kind, u.amount
  FROM volumes v, LATERAL (VALUES (2, 1::bigint), (10, v.size_bytes)) u(kind, amount)
  WHERE v.removed IS NULL) every
  GROUP BY account_id, kind) f ON f.account_id = c.owner_id AND f.kind = c.resource_type
  WHERE coalesce(c.amount, 0) <> coalesce(f.amount, 0);
-- heal:
WITH wrong AS (SELECT coalesce(c.owner_id, f.account_id) AS account_id, coalesce(c.resource_type, f.kind) AS kind, coalesce(f.amount, 0) AS amount
  FROM (SELECT *
  FROM resource_counts
  WHERE owner_kind = 'account' AND resource_type IN (0, 2, 8, 9, 10)) c
  FULL JOIN (SELECT account_id, kind, sum(amount) AS amount
  FROM (SELECT account_id, u.kind, u.amount
  FROM virtual_machines v, LATERAL (VALUES (0, 1), (8, v.cpu_number), (9, v.memory_mib)) u(kind, amount)
  WHERE NOT v.compute_released AND v.removed IS NULL
  UNION ALL SELECT account_id, u.kind, u.amount
  FROM volumes v, LATERAL (VALUES (2, 1::bigint), (10, v.size_bytes)) u(kind, amount)
  WHERE v.removed IS NULL) every
  GROUP BY account_id, kind) f ON f.account_id = c.owner_id AND f.kind = c.resource_type
  WHERE coalesce(c.amount, 0) <> coalesce(f.amount, 0)
  ORDER BY 1, 2 LIMIT :batch), healed AS (INSERT INTO resource_counts (owner_kind, owner_id, resource_type, amount)
  SELECT 'account', account_id, kind, amount
  FROM wrong ON CONFLICT (owner_kind, owner_id, resource_type) DO UPDATE SET amount = excluded.amount RETURNING 1)
  SELECT count(*) FROM healed;

-- invariant: domain_counts
-- promise: resource counts of domains are what the accounts in and below them add up to
-- compared:
SELECT count(*) FROM resource_counts WHERE owner_kind = 'domain';
-- breaches:
SELECT format('domain %s, resource type %s: counted %s, accounts add up to %s', coalesce(c.owner_id, f.domain_id), coalesce(c.resource_type, f.resource_type), coalesce(c.amount, 0), coalesce(f.amount, 0))
  FROM (SELECT *
  FROM resource_counts
  WHERE owner_kind = 'domain' AND resource_type IN (0, 2, 8, 9, 10)) c
  FULL JOIN (SELECT up.id AS domain_id, x.resource_type, sum(x.amount) AS amount
  FROM resource_counts x
  JOIN accounts a ON a.id = x.owner_id
  JOIN domains d ON d.id = a.domain_id
  JOIN domains up ON d.lineage LIKE up.lineage || '%'
  WHERE x.owner_kind = 'account' AND x.resource_type IN (0, 2, 8, 9, 10)
  GROUP BY 1, 2) f ON f.domain_id = c.owner_id AND f.resource_type = c.resource_type
  WHERE coalesce(c.amount, 0) <> coalesce(f.amount, 0);
-- heal:
WITH wrong AS (SELECT coalesce(c.owner_id, f.domain_id) AS domain_id, coalesce(c.resource_type, f.resource_type) AS kind, coalesce(f.amount, 0) AS amount
  FROM (SELECT *
  FROM resource_counts
  WHERE owner_kind = 'domain' AND resource_type IN (0, 2, 8, 9, 10)) c
  FULL JOIN (SELECT up.id AS domain_id, x.resource_type, sum(x.amount) AS amount
  FROM resource_counts x
  JOIN accounts a ON a.id = x.owner_id
  JOIN domains d ON d.id = a.domain_id
  JOIN domains up ON d.lineage LIKE up.lineage || '%'
  WHERE x.owner_kind = 'account' AND x.resource_type IN (0, 2, 8, 9, 10)
  GROUP BY 1, 2) f ON f.domain_id = c.owner_id AND f.resource_type = c.resource_type
  WHERE coalesce(c.amount, 0) <> coalesce(f.amount, 0)
  ORDER BY 1, 2 LIMIT :batch), healed AS (INSERT INTO resource_counts (owner_kind, owner_id, resource_type, amount)
  SELECT 'domain', domain_id, kind, amount
  FROM wrong ON CONFLICT (owner_kind, owner_id, resource_type) DO UPDATE SET amount = excluded.amount RETURNING 1)
  SELECT count(*) FROM healed;

-- invariant: resource_limits
-- promise: nobody has more than the limit that was set, or than was in use when it was lowered
-- compared:
SELECT count(*) FROM resource_limits WHERE max >= 0;
-- breaches:
SELECT format('%s %s, resource type %s: %s in use, limit %s', l.owner_kind, l.owner_id, l.resource_type, c.amount, l.max)
  FROM resource_limits l
  JOIN resource_counts c ON c.owner_kind = l.owner_kind AND c.owner_id = l.owner_id AND c.resource_type = l.resource_type
  CROSS JOIN LATERAL (SELECT coalesce(sum(x.amount), 0) AS amount
  FROM resource_counts x
  JOIN accounts a ON a.id = x.owner_id
  JOIN roles r ON r.id = a.role_id
  JOIN domains d ON d.id = a.domain_id
  JOIN domains up ON up.id = l.owner_id
  WHERE l.owner_kind = 'domain' AND x.owner_kind = 'account' AND x.resource_type = l.resource_type AND r.role_type = 'Admin' AND d.lineage LIKE up.lineage || '%') unbound
  WHERE l.max >= 0 AND c.amount - unbound.amount > greatest(l.max, l.amount_when_set);
-- by hand: raise the limit with updateResourceLimit, or have something removed

-- invariant: affinity
-- promise: the VMs of a strict affinity group are on one host
-- compared:
SELECT count(*) FROM affinity_groups WHERE affinity_type = 'host affinity' AND removed IS NULL;
-- breaches:
SELECT format('group %s: VMs on %s hosts', g.name, count(DISTINCT v.host_id))
  FROM affinity_groups g
  JOIN vm_affinity_groups m ON m.affinity_group_id = g.id
  JOIN virtual_machines v ON v.id = m.vm_id
  WHERE g.affinity_type = 'host affinity' AND g.removed IS NULL AND v.host_id IS NOT NULL AND v.removed IS NULL
  GROUP BY g.id, g.name HAVING count(DISTINCT v.host_id) > 1;
-- by hand: migrate the group's virtual machines to one host (migrateVirtualMachine), or take them out of the group

-- invariant: anti_affinity
-- promise: no host holds two VMs of a strict anti-affinity group; one that migrates counts on both hosts
-- compared:
SELECT count(*) FROM affinity_groups WHERE affinity_type = 'host anti-affinity' AND removed IS NULL;
-- breaches:
SELECT format('group %s: %s VMs on host %s', g.name, count(*), p.host_id)
  FROM affinity_groups g
  JOIN vm_affinity_groups m ON m.affinity_group_id = g.id
  JOIN (SELECT id, host_id
  FROM virtual_machines
  WHERE host_id IS NOT NULL AND removed IS NULL
  UNION ALL SELECT j.instance_id, x.host_id
  FROM host_claims x
  JOIN async_jobs j ON j.uuid = x.consumer
  WHERE x.consumer_kind = 1) p ON p.id = m.vm_id
  WHERE g.affinity_type = 'host anti-affinity' AND g.removed IS NULL
  GROUP BY g.id, g.name, p.host_id HAVING count(*) > 1;
-- by hand: migrate the group's virtual machines apart (migrateVirtualMachine), or take them out of the group

-- invariant: jobs
-- promise: a finished job has one result, an unfinished one none, and no VM is left between states without a job
-- compared:
SELECT count(*) FROM async_jobs;
-- breaches:
SELECT format('job %s: status %s, phase %s, code %s, completed %s, result %s', uuid, status, phase, result_code, completed, left(result, 60))
  FROM async_jobs
  WHERE (status = 0) <> (result IS NULL) OR (status = 0) <> (completed IS NULL) OR (status = 0) = (phase = 'done') OR (status = 2) <> (result_code <> 0)
  UNION ALL SELECT format('VM %s is %s and no job works on it', uuid, state)
  FROM virtual_machines
  WHERE state IN ('Starting', 'Stopping', 'Migrating') AND removed IS NULL AND id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL);
-- by hand: a virtual machine between states is settled by stopVirtualMachine with forced=true; jobs that are over stay as they are

-- invariant: vm_snapshots
-- promise: a snapshot that is made, reverted to or removed has a job of its VM, the VM of one of a volume has the volume, and a VM has one current snapshot at most
-- compared:
SELECT count(*) FROM vm_snapshots WHERE removed IS NULL;
-- breaches:
SELECT format('snapshot %s is %s and no job works on its VM', s.uuid, s.state)
  FROM vm_snapshots s
  WHERE s.state IN ('Creating', 'Reverting', 'Expunging') AND s.removed IS NULL AND s.vm_id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL)
  UNION ALL SELECT format('snapshot %s is of VM %s, which was expunged', s.uuid, v.uuid)
  FROM vm_snapshots s
  JOIN virtual_machines v ON v.id = s.vm_id
  WHERE s.removed IS NULL AND v.removed IS NOT NULL
  UNION ALL SELECT format('snapshot %s is of volume %s, which its VM does not have', s.uuid, x.uuid)
  FROM vm_snapshots s
  JOIN volumes x ON x.id = s.volume_id
  WHERE s.removed IS NULL AND (x.removed IS NOT NULL OR x.vm_id IS DISTINCT FROM s.vm_id)
  UNION ALL SELECT format('VM %s has %s current snapshots', v.uuid, count(*))
  FROM vm_snapshots s
  JOIN virtual_machines v ON v.id = s.vm_id
  WHERE s.is_current AND s.removed IS NULL
  GROUP BY v.uuid HAVING count(*) > 1;
-- heal:
WITH wrong AS (SELECT s.id
  FROM vm_snapshots s
  JOIN virtual_machines v ON v.id = s.vm_id
  WHERE s.state IN ('Creating', 'Reverting', 'Expunging') AND s.removed IS NULL AND s.vm_id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL) AND (CAST(:vm AS uuid) IS NULL OR v.uuid = CAST(:vm AS uuid))
  ORDER BY s.id LIMIT :batch), healed AS (UPDATE vm_snapshots
  SET state = CASE state WHEN 'Reverting' THEN 'Ready' ELSE 'Error' END
  WHERE id IN (SELECT id FROM wrong) RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: deleteVMSnapshot removes a snapshot of an unknown state

-- invariant: jobs_end_once
-- promise: every job ends once: no job has two Completed events, and none is leased that is over
-- compared:
SELECT count(*) FROM async_jobs WHERE status <> 0;
-- breaches:
SELECT format('job %s has %s Completed events', e.parent_uuid, count(*))
  FROM events e
  WHERE e.state = 'Completed' AND e.parent_uuid IS NOT NULL
  GROUP BY e.parent_uuid HAVING count(*) > 1
  UNION ALL SELECT format('job %s is over and leased until %s', uuid, lease_until)
  FROM async_jobs
  WHERE status <> 0 AND lease_until IS NOT NULL;
-- heal:
WITH wrong AS (SELECT id
  FROM async_jobs
  WHERE status <> 0 AND lease_until IS NOT NULL
  ORDER BY id LIMIT :batch), healed AS (UPDATE async_jobs
  SET lease_until = NULL
  WHERE id IN (SELECT id FROM wrong) RETURNING 1)
  SELECT count(*) FROM healed;
-- by hand: events are history: archiveEvents takes what was written twice out of sight

-- invariant: deployments_are_whole
-- promise: every deployment has exactly the VMs that its call was answered with, no more and no fewer
-- compared:
SELECT count(*) FROM deployments;
-- breaches:
SELECT format('deployment %s: answered %s VMs, has %s', d.uuid, d.vm_count, v.vms)
  FROM deployments d
  CROSS JOIN LATERAL (SELECT count(*) AS vms
  FROM virtual_machines x
  WHERE x.deployment_id IN (SELECT d.id UNION ALL SELECT own.id FROM deployments own WHERE own.batch_id = d.id)) v
  WHERE d.vm_count <> v.vms;
-- by hand: rows of virtual machines are missing: restore them from a backup

-- invariant: no_orphans
-- promise: what rows refer to without a foreign key is there
-- compared:
SELECT sum(n) FROM (SELECT count(*) AS n FROM virtual_machines UNION ALL SELECT count(*) FROM volumes UNION ALL SELECT count(*) FROM nics UNION ALL SELECT count(*) FROM host_claims UNION ALL SELECT count(*) FROM storage_claims UNION ALL SELECT count(*) FROM async_jobs UNION ALL SELECT count(*) FROM outbox UNION ALL SELECT count(*) FROM vm_affinity_groups) every;
-- breaches:
SELECT format('VM %s: its account, zone, offering, template, deployment, cluster or host does not exist', v.uuid)
  FROM virtual_machines v
  LEFT JOIN accounts a ON a.id = v.account_id
  LEFT JOIN zones z ON z.id = v.zone_id
  LEFT JOIN service_offerings o ON o.id = v.service_offering_id
  LEFT JOIN templates t ON t.id = v.template_id
  LEFT JOIN deployments d ON d.id = v.deployment_id
  LEFT JOIN clusters c ON c.id = v.cluster_id
  LEFT JOIN hosts h ON h.id = v.host_id
  WHERE a.id IS NULL OR z.id IS NULL OR o.id IS NULL OR t.id IS NULL OR d.id IS NULL OR (v.cluster_id IS NOT NULL AND c.id IS NULL) OR (v.host_id IS NOT NULL AND h.id IS NULL)
  UNION ALL SELECT format('volume %s: its account, VM or pool does not exist', x.uuid)
  FROM volumes x
  LEFT JOIN accounts a ON a.id = x.account_id
  LEFT JOIN virtual_machines v ON v.id = x.vm_id
  LEFT JOIN storage_pools p ON p.id = x.pool_id
  WHERE a.id IS NULL OR (x.vm_id IS NOT NULL AND v.id IS NULL) OR (x.pool_id IS NOT NULL AND p.id IS NULL)
  UNION ALL SELECT format('nic %s: its VM, network or range does not exist', n.uuid)
  FROM nics n
  LEFT JOIN virtual_machines v ON v.id = n.vm_id
  LEFT JOIN networks w ON w.id = n.network_id
  LEFT JOIN ip_ranges r ON r.id = n.ip_range_id
  WHERE v.id IS NULL OR w.id IS NULL OR (n.ip_range_id IS NOT NULL AND r.id IS NULL)
  UNION ALL SELECT format('host claim of %s: host %s does not exist', x.consumer, x.host_id)
  FROM host_claims x
  LEFT JOIN host_capacity h ON h.host_id = x.host_id
  WHERE h.host_id IS NULL
  UNION ALL SELECT format('storage claim of %s: pool %s does not exist', x.consumer, x.pool_id)
  FROM storage_claims x
  LEFT JOIN storage_pools p ON p.id = x.pool_id
  WHERE p.id IS NULL
  UNION ALL SELECT format('job %s: its account, VM or deployment does not exist', j.uuid)
  FROM async_jobs j
  LEFT JOIN accounts a ON a.id = j.account_id
  LEFT JOIN virtual_machines v ON v.id = j.instance_id
  LEFT JOIN deployments d ON d.id = j.deployment_id
  WHERE a.id IS NULL OR (j.instance_type = 'VirtualMachine' AND v.id IS NULL) OR (j.deployment_id IS NOT NULL AND d.id IS NULL)
  UNION ALL SELECT format('outbox: job %s does not exist', o.job_id)
  FROM outbox o
  LEFT JOIN async_jobs j ON j.id = o.job_id
  WHERE j.id IS NULL AND o.created < now() - interval '1 minute'
  UNION ALL SELECT format('affinity group %s: VM %s does not exist', m.affinity_group_id, m.vm_id)
  FROM vm_affinity_groups m
  LEFT JOIN virtual_machines v ON v.id = m.vm_id
  WHERE v.id IS NULL;
-- heal:
WITH hosts_gone AS (DELETE FROM host_claims
  WHERE host_id NOT IN (SELECT host_id FROM host_capacity) RETURNING 1), pools_gone AS (DELETE FROM storage_claims
  WHERE pool_id NOT IN (SELECT id FROM storage_pools) RETURNING 1), jobs_gone AS (DELETE FROM outbox
  WHERE job_id NOT IN (SELECT id FROM async_jobs) AND created < now() - interval '1 minute' RETURNING 1), vms_gone AS (DELETE FROM vm_affinity_groups
  WHERE vm_id NOT IN (SELECT id FROM virtual_machines) RETURNING 1)
  SELECT (SELECT count(*) FROM hosts_gone) + (SELECT count(*) FROM pools_gone) + (SELECT count(*) FROM jobs_gone) + (SELECT count(*) FROM vms_gone);
-- by hand: a row that others need is missing: restore it from a backup
