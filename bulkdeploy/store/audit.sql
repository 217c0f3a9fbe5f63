-- The invariants of the ledger. Each has a count of what is compared and a query for what breaks it,
-- which answers one text per breach and nothing on an intact system.

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

-- invariant: host_limits
-- promise: no host is promised more than its limit
-- compared:
SELECT count(*) FROM host_capacity;
-- breaches:
SELECT format('host %s: %s of %s MHz, %s of %s MiB, %s of %s VMs', h.name, cpu_mhz_used, cpu_mhz_limit, memory_mib_used, memory_mib_limit, vms_used, vms_limit)
  FROM host_capacity c
  JOIN hosts h ON h.id = c.host_id
  WHERE cpu_mhz_used > cpu_mhz_limit OR memory_mib_used > memory_mib_limit OR vms_used > vms_limit;

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

-- invariant: claims_have_consumers
-- promise: every host claim belongs to a living VM that is, or is about to be, on that host
-- compared:
SELECT count(*) FROM host_claims;
-- breaches:
SELECT format('claim of %s on host %s: %s', x.consumer, x.host_id, coalesce( 'VM is ' || v.state || ' on host ' || coalesce(v.host_id::text, 'none'), 'no such VM'))
  FROM host_claims x
  LEFT JOIN virtual_machines v ON v.uuid = x.consumer
  WHERE x.consumer_kind = 0 AND (v.id IS NULL OR v.removed IS NOT NULL OR v.host_id IS DISTINCT FROM x.host_id OR v.state IN ('Destroyed', 'Expunging', 'Error') OR (v.state = 'Stopped' AND v.id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL)));

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

-- invariant: vms_have_claims
-- promise: every VM on a host holds exactly the claim that its size asks for
-- compared:
SELECT count(*) FROM virtual_machines WHERE host_id IS NOT NULL;
-- breaches:
SELECT format('VM %s on host %s: %s', v.uuid, v.host_id, CASE WHEN x.consumer IS NULL THEN 'no claim' ELSE format('claims %s MHz, %s MiB on host %s for account %s', x.cpu_mhz, x.memory_mib, x.host_id, x.account_id) END)
  FROM virtual_machines v
  LEFT JOIN host_claims x ON x.consumer = v.uuid
  WHERE v.host_id IS NOT NULL AND (x.account_id, x.host_id, x.cpu_mhz, x.memory_mib) IS DISTINCT FROM (v.account_id, v.host_id, (v.cpu_number * v.cpu_mhz)::bigint, v.memory_mib::bigint);

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

-- invariant: volumes_have_claims
-- promise: storage claims and volumes in pools are the same, one for one
-- compared:
SELECT count(*) FROM storage_claims;
-- breaches:
SELECT format('volume %s: row says pool %s, %s bytes, claim says pool %s, %s bytes', coalesce(v.uuid, x.consumer), v.pool_id, v.size_bytes, x.pool_id, x.size_bytes)
  FROM (SELECT *
  FROM volumes
  WHERE removed IS NULL AND pool_id IS NOT NULL) v
  FULL JOIN storage_claims x ON x.consumer = v.uuid
  WHERE (v.pool_id, v.size_bytes) IS DISTINCT FROM (x.pool_id, x.size_bytes);

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
  WHERE n.removed IS NULL AND (f.ip_address IS NOT NULL OR v.id IS NULL OR v.removed IS NOT NULL OR v.state = 'Error' OR NOT n.ip_address BETWEEN r.start_ip AND r.end_ip);

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

-- invariant: jobs
-- promise: a finished job has one result, an unfinished one none, and no VM is left between states without a job
-- compared:
SELECT count(*) FROM async_jobs;
-- breaches:
SELECT format('job %s: status %s, phase %s, result %s', uuid, status, phase, left(result, 60))
  FROM async_jobs
  WHERE (status = 0) <> (result IS NULL) OR (status = 0) <> (completed IS NULL)
  UNION ALL SELECT format('VM %s is %s and no job works on it', uuid, state)
  FROM virtual_machines
  WHERE state IN ('Starting', 'Stopping', 'Migrating') AND removed IS NULL AND id NOT IN (SELECT instance_id
  FROM async_jobs
  WHERE status = 0 AND instance_type = 'VirtualMachine' AND instance_id IS NOT NULL);
