-- the domain of the tenants
INSERT INTO domains (name, path, lineage, level, parent_id, state)
SELECT 'generated', 'ROOT/generated', '', 1, 1, 'Active'
WHERE NOT EXISTS (SELECT FROM domains WHERE path = 'ROOT/generated');

-- its place under ROOT
UPDATE domains SET lineage = '/1/' || id || '/' WHERE path = 'ROOT/generated';

-- the tenants
INSERT INTO accounts (name, domain_id, role_id, account_type, state)
SELECT 'tenant-' || n, d.id, 4, 0, 'enabled'
FROM domains d, generate_series(1, :tenants) n
WHERE d.path = 'ROOT/generated' AND NOT EXISTS (SELECT FROM accounts WHERE domain_id = d.id)
ORDER BY n;

-- a user of each
INSERT INTO users (account_id, username, firstname, lastname, email, state)
SELECT a.id, a.name, '', '', '', 'enabled'
FROM accounts a JOIN domains d ON d.id = a.domain_id
WHERE d.path = 'ROOT/generated' AND NOT EXISTS (SELECT FROM users u WHERE u.account_id = a.id)
ORDER BY a.id;

-- no limits
INSERT INTO resource_limits (owner_kind, owner_id, resource_type, max)
SELECT o.kind, o.id, t, -1
FROM unnest(CAST(:types AS smallint[])) t, (
    SELECT 'domain' AS kind, id FROM domains WHERE path = 'ROOT/generated'
    UNION ALL
    SELECT 'account', a.id FROM accounts a JOIN domains d ON d.id = a.domain_id WHERE d.path = 'ROOT/generated'
) o
ON CONFLICT DO NOTHING;

-- what VMs are made of
INSERT INTO service_offerings (name, display_text, cpu_number, cpu_mhz, memory_mib, storage_type, state)
SELECT :offering, '1 core and 512 MiB', 1, 500, 512, 'shared', 'Active'
WHERE NOT EXISTS (SELECT FROM service_offerings WHERE name = :offering);

-- and from
INSERT INTO templates
    (name, display_text, account_id, kind, template_type, format, hypervisor, size_bytes, physical_size_bytes,
     is_public, is_featured)
SELECT :template, 'Made up', 2, 'template', 'BUILTIN', 'QCOW2', 'KVM', 1073741824, 1073741824, true, true
WHERE NOT EXISTS (SELECT FROM templates WHERE name = :template);

-- the zone
INSERT INTO zones (name, description, network_type, allocation_state)
VALUES (:zone, 'Made up for a benchmark', 'Advanced', 'Enabled');

-- its template
INSERT INTO template_zones (template_id, zone_id, ready, status)
SELECT t.id, z.id, true, 'Download Complete' FROM templates t, zones z WHERE t.name = :template AND z.name = :zone;

-- a network with 16 million addresses
INSERT INTO networks
    (name, display_text, zone_id, account_id, domain_id, network_offering_id, guest_type, acl_type, subdomain_access,
     is_default, cidr, gateway, netmask, state)
SELECT 'guests', 'guests', z.id, 2, 1, o.id, 'Shared', 'Domain', true, true, '10.0.0.0/8', '10.0.0.1', '255.0.0.0',
    'Implemented'
FROM zones z, network_offerings o
WHERE z.name = :zone AND o.name = 'DefaultSharedNetworkOffering';

-- all of them in one range
INSERT INTO ip_ranges (network_id, start_ip, end_ip, next_ip, gateway, netmask)
SELECT n.id, '10.0.0.10', '10.255.255.254', '10.0.0.10', '10.0.0.1', '255.0.0.0'
FROM networks n JOIN zones z ON z.id = n.zone_id
WHERE z.name = :zone;

-- pods
INSERT INTO pods (zone_id, name, allocation_state)
SELECT z.id, :zone || '-pod-' || n, 'Enabled' FROM zones z, generate_series(1, :pods) n WHERE z.name = :zone ORDER BY n;

-- clusters
INSERT INTO clusters (zone_id, pod_id, name, hypervisor, allocation_state, cpu_overcommit, memory_overcommit)
SELECT p.zone_id, p.id, :zone || '-cluster-' || c.number, 'KVM', 'Enabled', 1, 1
FROM unnest(CAST(:pod_of AS int[])) WITH ORDINALITY c(pod, number)
    JOIN pods p ON p.name = :zone || '-pod-' || c.pod
ORDER BY c.number;

-- hosts, numbered through the zone as their addresses are
INSERT INTO hosts
    (zone_id, pod_id, cluster_id, name, ip_address, hypervisor, state, resource_state, cpu_sockets, cpu_cores, cpu_mhz,
     memory_mib)
SELECT c.zone_id, c.pod_id, c.id, :zone || '-host-' || row_number() OVER every,
    host(inet '172.16.0.0' + row_number() OVER every), 'KVM', 'Up', 'Enabled', 1, s.cores, s.mhz, s.memory
FROM unnest(CAST(:hosts AS int[]), CAST(:cores AS int[]), CAST(:mhz AS int[]), CAST(:memory AS int[]))
        WITH ORDINALITY s(hosts, cores, mhz, memory, number)
    JOIN clusters c ON c.name = :zone || '-cluster-' || s.number,
    generate_series(1, s.hosts) n
WINDOW every AS (ORDER BY s.number, n)
ORDER BY s.number, n;

-- a pool for each cluster
INSERT INTO storage_pools (zone_id, pod_id, cluster_id, name, scope, pool_type, state, capacity_bytes)
SELECT c.zone_id, c.pod_id, c.id, c.name || '-primary', 'CLUSTER', 'NetworkFilesystem', 'Up',
    10 * 1024 * 1073741824::bigint * s.hosts
FROM unnest(CAST(:hosts AS int[])) WITH ORDINALITY s(hosts, number)
    JOIN clusters c ON c.name = :zone || '-cluster-' || s.number
ORDER BY c.id;

-- one deployment for the VMs of each cluster
INSERT INTO deployments
    (bulk, account_id, user_id, zone_id, vm_count, asked_count, pinned, config, plan)
SELECT false, a.id, u.id, z.id, s.vms, s.vms, false,
    jsonb_build_object('account_id', a.id, 'hypervisor', 'KVM', 'network_ids', jsonb_build_array(w.id), 'startvm', true),
    jsonb_build_object('cluster', s.number)
FROM unnest(CAST(:vms AS int[])) WITH ORDINALITY s(vms, number)
    JOIN zones z ON z.name = :zone
    JOIN networks w ON w.zone_id = z.id
    JOIN domains d ON d.path = 'ROOT/generated'
    JOIN accounts a ON a.domain_id = d.id AND a.name = 'tenant-' || (s.number - 1) % :tenants + 1
    JOIN users u ON u.account_id = a.id
WHERE s.vms > 0
ORDER BY s.number;

-- the VMs, on the hosts of their cluster in turn
INSERT INTO virtual_machines
    (name, display_name, instance_name, account_id, user_id, zone_id, pod_id, cluster_id, host_id, hypervisor,
     service_offering_id, template_id, cpu_number, cpu_mhz, memory_mib, state, deployment_id)
SELECT :zone || '-vm-' || d.number || '-' || n, :zone || '-vm-' || d.number || '-' || n,
    'i-' || d.account_id || '-' || d.number || '-' || n || '-VM', d.account_id, d.user_id, d.zone_id, c.pod_id, c.id,
    h.ids[(n - 1) % cardinality(h.ids) + 1], 'KVM', o.id, t.id, o.cpu_number, o.cpu_mhz, o.memory_mib, 'Running', d.id
FROM (SELECT *, (plan ->> 'cluster')::int AS number FROM deployments) d
    JOIN zones z ON z.id = d.zone_id AND z.name = :zone
    JOIN clusters c ON c.name = :zone || '-cluster-' || d.number
    JOIN (SELECT cluster_id, array_agg(id ORDER BY id) AS ids FROM hosts GROUP BY cluster_id) h ON h.cluster_id = c.id
    JOIN service_offerings o ON o.name = :offering
    JOIN templates t ON t.name = :template,
    generate_series(1, d.vm_count) n
ORDER BY d.number, n;

-- their volumes
INSERT INTO volumes
    (name, account_id, zone_id, vm_id, pool_id, volume_type, device_id, size_bytes, template_id, service_offering_id,
     state)
SELECT 'ROOT-' || v.id, v.account_id, v.zone_id, v.id, p.id, 'ROOT', 0, t.size_bytes, t.id, v.service_offering_id, 'Ready'
FROM virtual_machines v
    JOIN zones z ON z.id = v.zone_id AND z.name = :zone
    JOIN storage_pools p ON p.cluster_id = v.cluster_id
    JOIN templates t ON t.id = v.template_id
ORDER BY v.id;

-- their nics
INSERT INTO nics (vm_id, network_id, ip_range_id, ip_address, gateway, netmask, mac_address, device_id, is_default)
SELECT v.id, r.network_id, r.id, r.start_ip + v.number, r.gateway, r.netmask,
    '1e' || regexp_replace(lpad(to_hex(nextval('mac_address_numbers')), 10, '0'), '(..)', ':\1', 'g'), 0, true
FROM (
    SELECT v.*, row_number() OVER (ORDER BY v.id) - 1 AS number
    FROM virtual_machines v JOIN zones z ON z.id = v.zone_id AND z.name = :zone
) v
    JOIN networks w ON w.zone_id = v.zone_id
    JOIN ip_ranges r ON r.network_id = w.id
ORDER BY v.id;

-- and what is taken of the range
UPDATE ip_ranges r SET next_ip = r.start_ip + (SELECT count(*) FROM nics n WHERE n.ip_range_id = r.id)
FROM networks w JOIN zones z ON z.id = w.zone_id AND z.name = :zone
WHERE r.network_id = w.id;

-- what each host can hold
INSERT INTO host_capacity (host_id, cpu_mhz_limit, memory_mib_limit, vms_limit)
SELECT h.id, h.cpu_cores::bigint * h.cpu_mhz, h.memory_mib, 150
FROM hosts h JOIN zones z ON z.id = h.zone_id AND z.name = :zone
ORDER BY h.id;

-- the claims of the VMs
INSERT INTO host_claims (consumer, host_id, consumer_kind, account_id, cpu_mhz, memory_mib)
SELECT v.uuid, v.host_id, 0, v.account_id, v.cpu_number::bigint * v.cpu_mhz, v.memory_mib
FROM virtual_machines v JOIN zones z ON z.id = v.zone_id AND z.name = :zone;

-- and their sums
UPDATE host_capacity c SET cpu_mhz_used = s.cpu_mhz, memory_mib_used = s.memory_mib, vms_used = s.vms
FROM (
    SELECT host_id, sum(cpu_mhz) AS cpu_mhz, sum(memory_mib) AS memory_mib, count(*) AS vms
    FROM host_claims GROUP BY host_id
) s
WHERE c.host_id = s.host_id;

-- by account and cluster, too
INSERT INTO account_clusters (account_id, cluster_id, vms)
SELECT v.account_id, v.cluster_id, count(*)
FROM virtual_machines v JOIN zones z ON z.id = v.zone_id AND z.name = :zone
GROUP BY v.account_id, v.cluster_id;

-- the claims of the volumes
INSERT INTO storage_claims (consumer, pool_id, size_bytes)
SELECT v.uuid, v.pool_id, v.size_bytes FROM volumes v JOIN zones z ON z.id = v.zone_id AND z.name = :zone;

-- and their sums
UPDATE storage_pools p SET allocated_bytes = s.size_bytes
FROM (SELECT pool_id, sum(size_bytes) AS size_bytes FROM storage_claims GROUP BY pool_id) s
WHERE p.id = s.pool_id;

-- what the tenants use, and the domains above them
WITH used AS (
    SELECT v.account_id, u.kind, sum(u.amount) AS amount
    FROM virtual_machines v, LATERAL (VALUES (0, 1), (8, v.cpu_number), (9, v.memory_mib)) u(kind, amount)
    GROUP BY v.account_id, u.kind
    UNION ALL
    SELECT v.account_id, u.kind, sum(u.amount)
    FROM volumes v, LATERAL (VALUES (2, 1::bigint), (10, v.size_bytes)) u(kind, amount)
    GROUP BY v.account_id, u.kind
)
INSERT INTO resource_counts (owner_kind, owner_id, resource_type, amount)
SELECT 'account', account_id, kind, amount FROM used
UNION ALL
SELECT 'domain', d.id, u.kind, sum(u.amount) FROM used u, domains d WHERE d.path IN ('ROOT', 'ROOT/generated') GROUP BY d.id, u.kind
ON CONFLICT (owner_kind, owner_id, resource_type) DO UPDATE SET amount = excluded.amount;
