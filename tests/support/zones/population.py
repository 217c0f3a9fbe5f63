"""What the small zone lacks for the list commands: other owners, projects, and things of every kind.

Who may see what follows from this tree:

    ROOT (admin)
    |-- customers (customers-admin, a domain admin)
    |   `-- acme (acme, neighbour; project moon of acme)
    `-- rivals (rival)
"""

from sqlalchemy import Connection, text

OWNERS = """
INSERT INTO domains (name, parent_id, path, lineage, level, network_domain)
    VALUES ('rivals', 1, 'ROOT/rivals', '', 1, 'rivals.example');
UPDATE domains SET lineage = '/1/' || id || '/' WHERE name = 'rivals';
INSERT INTO accounts (name, domain_id, account_type, role_id, network_domain)
    SELECT a.name, d.id, a.type, 4, a.name || '.example'
    FROM (VALUES ('neighbour', 'acme', 0), ('rival', 'rivals', 0), ('moon-account', 'acme', 5))
         a(name, domain, type)
    JOIN domains d ON d.name = a.domain;
INSERT INTO users (username, account_id, firstname, lastname, email, timezone)
    SELECT name, id, 'First', 'Last', name || '@example', 'Europe/Berlin' FROM accounts
    WHERE name IN ('neighbour', 'rival');
UPDATE role_rules SET description = 'about ' || lower(rule);
INSERT INTO projects (name, display_text, domain_id, account_id)
    SELECT 'moon', 'To the moon', domain_id, id FROM accounts WHERE name = 'moon-account';
INSERT INTO project_accounts (project_id, account_id, role)
    SELECT p.id, a.id, 'Admin' FROM projects p, accounts a WHERE a.name = 'acme'
"""

TOPOLOGY = """
UPDATE zones SET description = 'A small zone', dns2 = '10.0.0.4', internal_dns2 = '10.0.0.5',
    guest_cidr = '10.1.0.0/16' WHERE name = 'small';
INSERT INTO zones (name, network_type, allocation_state, domain_id, sort_key)
    SELECT z.name, z.type, z.state, d.id, 1
    FROM (VALUES ('for-rivals', 'Advanced', 'Enabled', 'rivals'), ('closed', 'Basic', 'Disabled', NULL),
                 ('dedicated', 'Advanced', 'Enabled', NULL)) z(name, type, state, domain)
    LEFT JOIN domains d ON d.name = z.domain;
INSERT INTO dedicated_resources (zone_id, domain_id)
    SELECT z.id, d.id FROM zones z, domains d WHERE z.name = 'dedicated' AND d.name = 'customers';
UPDATE pods SET start_ip = '10.0.1.100', end_ip = '10.0.1.200' WHERE name = 'pod-a';
UPDATE pods SET allocation_state = 'Disabled' WHERE name = 'pod-b';
UPDATE clusters SET allocation_state = 'Disabled' WHERE name = 'b-2';
INSERT INTO pods (zone_id, name) SELECT id, 'far' FROM zones WHERE name = 'for-rivals';
INSERT INTO clusters (zone_id, pod_id, name, hypervisor, cluster_type, managed_state, cpu_overcommit)
    SELECT zone_id, id, 'far-1', 'VMware', 'ExternalManaged', 'Unmanaged', 2.5 FROM pods WHERE name = 'far';
INSERT INTO hosts (zone_id, pod_id, cluster_id, name, ip_address, hypervisor, state, resource_state, cpu_cores,
                   cpu_mhz, memory_mib)
    SELECT zone_id, pod_id, id, h.name, '10.9.0.1', 'VMware', 'Down', h.state, 4, 1000, 2048
    FROM clusters, (VALUES ('far-host', 'Disabled'), ('far-host-2', 'Enabled')) h(name, state)
    WHERE clusters.name = 'far-1';
INSERT INTO host_capacity (host_id, cpu_mhz_limit, memory_mib_limit, vms_limit)
    SELECT id, 10000, 2048, 10 FROM hosts WHERE name LIKE 'far-host%';
INSERT INTO image_stores (name, zone_id, provider, protocol, url, read_only, capacity_bytes)
    SELECT s.name, z.id, 'NFS', 'nfs', 'nfs:' || '//10.0.0.9/' || z.id, s.closed, 1000
    FROM (VALUES ('near secondary', 'small', false), ('far secondary', 'for-rivals', true)) s(name, zone, closed)
    JOIN zones z ON z.name = s.zone;
UPDATE storage_pools SET tags = '{fast}' WHERE name = 'b-1-primary';
UPDATE hosts SET annotation = 'loud', annotated = now() WHERE name = 'a-1-1';
UPDATE hosts SET hypervisor_version = '9.2', tags = '{gpu,ssd}', details = '{"rack": "7"}' WHERE name = 'a-1-1';
INSERT INTO pods (zone_id, name) SELECT id, 'far-2' FROM zones WHERE name = 'for-rivals';
INSERT INTO clusters (zone_id, pod_id, name, hypervisor) SELECT zone_id, id, 'far-2', 'VMware' FROM pods
    WHERE name = 'far-2';
INSERT INTO affinity_groups (name, affinity_type, domain_id, account_id)
    SELECT 'DedicatedGrp-rival', 'ExplicitDedication', domain_id, id FROM accounts WHERE name = 'rival';
INSERT INTO dedicated_resources (zone_id, pod_id, cluster_id, host_id, domain_id, account_id, affinity_group_id)
    SELECT x.zone_id, x.pod_id, x.cluster_id, x.host_id, g.domain_id, g.account_id, g.id FROM affinity_groups g,
        (SELECT id AS zone_id, NULL::bigint AS pod_id, NULL::bigint AS cluster_id, NULL::bigint AS host_id
             FROM zones WHERE name = 'for-rivals'
         UNION ALL SELECT NULL, id, NULL, NULL FROM pods WHERE name = 'far'
         UNION ALL SELECT NULL, NULL, id, NULL FROM clusters WHERE name = 'far-1'
         UNION ALL SELECT NULL, NULL, NULL, id FROM hosts WHERE name = 'far-host') x
    WHERE g.name = 'DedicatedGrp-rival';
INSERT INTO dedicated_resources (pod_id, cluster_id, host_id, domain_id)
    SELECT x.pod_id, x.cluster_id, x.host_id, d.id FROM domains d,
        (SELECT id AS pod_id, NULL::bigint AS cluster_id, NULL::bigint AS host_id FROM pods WHERE name = 'far-2'
         UNION ALL SELECT NULL, id, NULL FROM clusters WHERE name = 'far-2'
         UNION ALL SELECT NULL, NULL, id FROM hosts WHERE name = 'far-host-2') x WHERE d.name = 'customers';
INSERT INTO storage_pools (zone_id, pod_id, cluster_id, host_id, name, scope, pool_type, hypervisor, state,
                           capacity_bytes, ip_address)
    SELECT zone_id, pod_id, cluster_id, id, 'local-disk', 'HOST', 'Filesystem', 'KVM', 'Maintenance', 1000000000,
        ip_address
    FROM hosts WHERE name = 'a-1-1'
"""

CATALOGUE = """
INSERT INTO service_offerings (name, display_text, cpu_number, cpu_mhz, memory_mib, root_disk_gib, storage_type,
        storage_tags, host_tags, deployment_planner, network_rate, offer_ha, domain_ids, zone_ids, details)
    SELECT 'Rivals only', 'Big', 8, 2000, 4096, 1, 'local', '{ssd}', '{gpu}', 'FirstFitPlanner', 200, true,
        ARRAY[d.id], ARRAY[z.id], '{"colour": "red"}' FROM domains d, zones z
    WHERE d.name = 'rivals' AND z.name = 'for-rivals';
INSERT INTO service_offerings (name, display_text, cpu_number, cpu_mhz, memory_mib, state)
    VALUES ('Retired', 'No longer offered', 1, 500, 512, 'Inactive');
INSERT INTO disk_offerings (name, display_text, disk_gib, storage_type, storage_tags, display_offering, domain_ids,
        zone_ids, details)
    SELECT 'Rivals disk', 'Hidden', 5, 'local', '{ssd}', false, ARRAY[d.id], ARRAY[z.id], '{"colour": "red"}'
    FROM domains d, zones z WHERE d.name = 'rivals' AND z.name = 'for-rivals';
INSERT INTO disk_offerings (name, display_text, disk_gib, state) VALUES ('Retired disk', 'Old', 1, 'Inactive');
INSERT INTO templates (name, display_text, kind, template_type, format, hypervisor, size_bytes, physical_size_bytes,
        account_id, is_public, is_featured, template_tag, url, checksum, arch, details, bootable, os_type_id)
    SELECT t.name, t.name, t.kind, 'SYSTEM', t.format, 'VMware', 1, 1, a.id, t.public, false, 'gpu',
        'http://example/t', 'abc', 'aarch64', '{"colour": "red"}', t.kind = 'template',
        (SELECT id FROM os_types WHERE name = 'Windows 11 (64-bit)')
    FROM (VALUES ('rival private', 'template', 'OVA', 'rival', false),
                 ('rival shared', 'template', 'OVA', 'rival', false),
                 ('rival removed', 'template', 'OVA', 'rival', false),
                 ('rival community', 'template', 'OVA', 'rival', true),
                 ('acme private', 'template', 'OVA', 'acme', false),
                 ('moon template', 'template', 'OVA', 'moon-account', false),
                 ('rival old iso', 'iso', 'ISO', 'rival', false),
                 ('moon iso', 'iso', 'ISO', 'moon-account', false),
                 ('rival iso', 'iso', 'ISO', 'rival', false), ('acme iso', 'iso', 'ISO', 'acme', false))
         t(name, kind, format, owner, public) JOIN accounts a ON a.name = t.owner;
UPDATE templates SET removed = now() WHERE name IN ('rival removed', 'rival old iso');
INSERT INTO template_zones (template_id, zone_id, ready, status)
    SELECT t.id, z.id, z.name = 'small', 'Download Complete' FROM templates t, zones z
    WHERE t.arch = 'aarch64' AND z.name IN ('small', 'for-rivals');
INSERT INTO template_permissions SELECT t.id, a.id FROM templates t, accounts a
    WHERE t.name = 'rival shared' AND a.name = 'acme';
INSERT INTO network_offerings (name, display_text, guest_type, traffic_type, state, availability, services)
    VALUES ('Odd', 'Odd one', 'L2', 'Public', 'Disabled', 'Required', '["Dhcp", "Weird"]')
"""

NETWORKS = """
INSERT INTO physical_networks (name, zone_id) SELECT 'far-wires', id FROM zones WHERE name = 'for-rivals';
INSERT INTO networks (name, display_text, zone_id, network_offering_id, physical_network_id, guest_type, acl_type,
        account_id, domain_id, subdomain_access, network_domain, is_system)
    SELECT n.name, n.name, z.id, o.id, p.id, n.type, n.acl, a.id, d.id, n.sub, 'net.example', n.system
    FROM (VALUES ('acme-isolated', 'small', 'Isolated', 'Account', 'acme', 'acme', true, false),
                 ('neighbour-isolated', 'small', 'Isolated', 'Account', 'neighbour', 'acme', true, false),
                 ('rival-isolated', 'for-rivals', 'Isolated', 'Account', 'rival', 'rivals', true, false),
                 ('moon-isolated', 'small', 'Isolated', 'Account', 'moon-account', 'acme', true, false),
                 ('customers-wide', 'small', 'Shared', 'Domain', 'admin', 'customers', true, false),
                 ('customers-alone', 'small', 'Shared', 'Domain', 'admin', 'customers', false, false),
                 ('rivals-wide', 'for-rivals', 'Shared', 'Domain', 'admin', 'rivals', true, true))
         n(name, zone, type, acl, account, domain, sub, system)
    JOIN zones z ON z.name = n.zone JOIN accounts a ON a.name = n.account JOIN domains d ON d.name = n.domain
    JOIN network_offerings o
         ON o.name = CASE n.zone WHEN 'small' THEN 'DefaultIsolatedNetworkOffering' ELSE 'Odd' END
    LEFT JOIN physical_networks p ON p.zone_id = z.id AND p.name = 'far-wires';
INSERT INTO ip_ranges (network_id, pod_id, start_ip, end_ip, next_ip, gateway, netmask)
    SELECT n.id, p.id, '10.7.0.10', '10.7.0.19', '10.7.0.14', '10.7.0.1', '255.255.255.0'
    FROM networks n, pods p WHERE n.name = 'customers-wide' AND p.name = 'pod-a';
INSERT INTO dedicated_vlan_ranges (physical_network_id, account_id, first_vlan, last_vlan)
    SELECT p.id, a.id, r.first, r.first + 9
    FROM (VALUES ('far-wires', 'rival', 4000), ('guests', 'moon-account', 4010)) r(network, account, first)
    JOIN physical_networks p ON p.name = r.network JOIN accounts a ON a.name = r.account;
UPDATE physical_networks SET network_speed = '10G', tags = '{fast}', vlan_range = '5', state = 'Disabled'
    WHERE name = 'far-wires';
INSERT INTO traffic_types (physical_network_id, traffic_type, labels)
    SELECT id, t, '{"xennetworklabel": "x", "kvmnetworklabel": "k", "vmwarenetworklabel": "v",
                    "hypervnetworklabel": "h", "ovm3networklabel": "o"}'
    FROM physical_networks, unnest(ARRAY['Guest', 'Public']) t;
DELETE FROM network_service_providers;
INSERT INTO network_service_providers (physical_network_id, name, state, element_enabled)
    SELECT id, p, CASE name WHEN 'guests' THEN 'Enabled' ELSE 'Disabled' END, name = 'guests'
    FROM physical_networks, unnest(ARRAY['VirtualRouter', 'VpcVirtualRouter', 'InternalLbVm']) p;
INSERT INTO ip_ranges (zone_id, physical_network_id, start_ip, end_ip, next_ip, gateway, netmask, vlan)
    SELECT zone_id, id, '192.0.2.10', '192.0.2.19', '192.0.2.10', '192.0.2.1', '255.255.255.0', '50'
    FROM physical_networks WHERE name = 'far-wires';
UPDATE networks SET public_mtu = 1500, private_mtu = 9000 WHERE name = 'rivals-wide';
UPDATE network_offerings SET service_offering_id = (SELECT min(id) FROM service_offerings), network_rate = 200,
    specify_ip_ranges = true, max_connections = 4096,
    providers = '{"Dhcp": ["VirtualRouter"]}',
    capabilities = '{"Dhcp": {"DhcpAccrossMultipleSubnets": "true"}}', tags = 'tagged' WHERE name = 'Odd';
INSERT INTO released_addresses SELECT id, '10.7.0.12' FROM ip_ranges WHERE start_ip = '10.7.0.10'
"""

GROUPS = """
INSERT INTO security_groups (name, description, account_id) SELECT 'default', 'Of ' || name, id FROM accounts
    WHERE name IN ('neighbour', 'rival', 'moon-account');
INSERT INTO security_group_rules (security_group_id, direction, protocol, icmp_type, icmp_code, cidr)
    SELECT id, 'ingress', 'icmp', 8, 0, '10.0.0.0/8' FROM security_groups WHERE description = 'Of rival';
INSERT INTO security_group_rules (security_group_id, direction, protocol, start_port, end_port, peer_group_id)
    SELECT id, d, 'tcp', 1, 2, id FROM security_groups, unnest(ARRAY['ingress', 'egress']) d
    WHERE description = 'Of rival';
INSERT INTO security_group_rules (security_group_id, direction, protocol, icmp_type, icmp_code, cidr)
    SELECT id, 'egress', 'icmp', 8, 0, '10.0.0.0/8' FROM security_groups WHERE description = 'Of rival';
INSERT INTO affinity_groups (name, affinity_type, description, account_id, domain_id)
    SELECT 'group of ' || name, 'host anti-affinity', 'Apart', id, domain_id FROM accounts
    WHERE name IN ('neighbour', 'rival', 'moon-account');
INSERT INTO affinity_groups (name, affinity_type, domain_id)
    SELECT 'of domain ' || name, 'ExplicitDedication', id FROM domains WHERE name IN ('customers', 'rivals');
INSERT INTO ssh_key_pairs (name, account_id, fingerprint, public_key)
    SELECT 'key of ' || name, id, 'aa:' || name, 'ssh-rsa x' FROM accounts
    WHERE name IN ('neighbour', 'rival', 'moon-account');
INSERT INTO instance_groups (name, account_id) SELECT 'things of ' || name, id FROM accounts
    WHERE name IN ('acme', 'neighbour', 'rival', 'moon-account');
INSERT INTO user_data (name, account_id, content, params)
    SELECT 'data of ' || name, id, 'aGVsbG8=', 'a,b' FROM accounts
    WHERE name IN ('acme', 'neighbour', 'rival', 'moon-account')
"""

AFTER_DEPLOYMENT = """
UPDATE virtual_machines SET state = 'Running' WHERE name = 'acme-1';
UPDATE async_jobs j SET status = 1, phase = 'done' FROM virtual_machines v
    WHERE v.id = j.instance_id AND v.name = 'acme-1';
UPDATE virtual_machines SET state = 'Destroyed', host_id = NULL WHERE name = 'acme-destroyed';
UPDATE virtual_machines SET state = 'Expunging', host_id = NULL WHERE name = 'acme-expunging';
UPDATE virtual_machines SET removed = now(), state = 'Expunging', host_id = NULL, compute_released = true
    WHERE name = 'acme-gone';
UPDATE resource_counts c SET amount = amount - 1 FROM accounts a, domains d, domains up
    WHERE a.id = (SELECT account_id FROM virtual_machines WHERE name = 'acme-gone') AND d.id = a.domain_id
    AND d.lineage LIKE up.lineage || '%' AND c.resource_type = 0
    AND (c.owner_kind, c.owner_id) IN (('account', a.id), ('domain', up.id));
UPDATE virtual_machines SET display_vm = false, delete_protection = true, details = '{"colour": "red"}',
    group_id = (SELECT id FROM instance_groups WHERE name = 'things of rival') WHERE name = 'rival-1';
UPDATE virtual_machines SET service_offering_id = (SELECT id FROM service_offerings WHERE name = 'Rivals only'),
    template_id = (SELECT id FROM templates WHERE name = 'rival iso'), hypervisor = 'VMware',
    disk_offering_id = (SELECT id FROM disk_offerings WHERE name = 'Rivals disk'),
    user_id = (SELECT id FROM users WHERE username = 'rival'),
    zone_id = (SELECT id FROM zones WHERE name = 'for-rivals') WHERE name = 'rival-1';
UPDATE volumes v SET state = 'Ready', attached = now(), volume_type = 'DATADISK', name = 'DATA',
    disk_offering_id = m.disk_offering_id, service_offering_id = m.service_offering_id, zone_id = m.zone_id,
    pool_id = (SELECT id FROM storage_pools WHERE name = 'local-disk')
    FROM virtual_machines m WHERE m.id = v.vm_id AND m.name = 'rival-1';
UPDATE volumes SET pool_id = (SELECT id FROM storage_pools WHERE name = 'b-1-primary')
    WHERE vm_id = (SELECT id FROM virtual_machines WHERE name = 'acme-2');
UPDATE nics SET network_id = (SELECT id FROM networks WHERE name = 'rivals-wide')
    WHERE vm_id = (SELECT id FROM virtual_machines WHERE name = 'rival-1');
INSERT INTO vm_snapshots (name, display_name, description, vm_id, account_id, snapshot_type, state, is_current)
    SELECT instance_name || '_VS_1', 'of ' || name, 'Nightly', id, account_id, 'Disk', 'Error', false
    FROM virtual_machines WHERE name IN ('acme-1', 'acme-2', 'neighbour-1', 'rival-1')
        OR account_id = (SELECT id FROM accounts WHERE name = 'moon-account');
INSERT INTO vm_snapshots (name, display_name, vm_id, account_id, snapshot_type, state, parent_id, is_current)
    SELECT 'second', 'second', vm_id, account_id, 'DiskAndMemory', 'Ready', id, true FROM vm_snapshots
    WHERE display_name = 'of rival-1';
INSERT INTO vm_snapshots (name, display_name, vm_id, volume_id, account_id, snapshot_type, state, is_current)
    SELECT 'volume of ' || m.name, 'volume of ' || m.name, m.id, v.id, m.account_id, 'Disk', 'Ready', false
    FROM virtual_machines m JOIN volumes v ON v.vm_id = m.id
    WHERE m.name IN ('acme-1', 'acme-2', 'neighbour-1', 'rival-1')
        OR m.account_id = (SELECT id FROM accounts WHERE name = 'moon-account');
INSERT INTO snapshot_policies (account_id, volume_id, interval_type, schedule, time_zone, max_snapshots, next_run,
        names_zone)
    SELECT v.account_id, v.id, CASE m.name WHEN 'rival-1' THEN 'WEEKLY' ELSE 'DAILY' END, '30:02', 'UTC', 3,
        now() + interval '1 year', true
    FROM virtual_machines m JOIN volumes v ON v.vm_id = m.id
    WHERE m.name IN ('acme-1', 'neighbour-1', 'rival-1')
        OR m.account_id = (SELECT id FROM accounts WHERE name = 'moon-account');
INSERT INTO vm_schedules
        (account_id, vm_id, description, action, schedule, time_zone, start_date, next_run, enabled)
    SELECT account_id, id, CASE name WHEN 'rival-1' THEN 'at night' ELSE 'in the morning' END,
        CASE name WHEN 'rival-1' THEN 'STOP' ELSE 'START' END, '30 2 * * *', 'UTC', now(),
        now() + interval '1 year', name <> 'rival-1'
    FROM virtual_machines WHERE name IN ('acme-1', 'neighbour-1', 'rival-1')
        OR account_id = (SELECT id FROM accounts WHERE name = 'moon-account');
INSERT INTO vm_schedules (account_id, group_id, description, action, schedule, time_zone, start_date, end_date)
    SELECT account_id, id, 'of a group', 'START', '30 2 * * *', 'UTC', now(), now() + interval '1 year'
    FROM instance_groups;
INSERT INTO vm_schedules (account_id, deployment_id, description, action, schedule, time_zone, start_date)
    SELECT account_id, id, 'of a deployment', 'START', '30 2 * * *', 'UTC', now()
    FROM deployments ORDER BY id LIMIT 1;
INSERT INTO vm_schedules (account_id, tags, description, action, schedule, time_zone, start_date)
    SELECT id, '[{"key": "colour", "value": "red"}]', 'of tags', 'START', '30 2 * * *', 'UTC', now() FROM accounts
    WHERE name = 'acme';
INSERT INTO project_invitations (project_id, account_id, role, state)
    SELECT p.id, a.id, 'Regular', CASE a.name WHEN 'acme' THEN 'Declined' ELSE 'Pending' END
    FROM projects p, accounts a WHERE p.name = 'moon' AND a.name IN ('customers-admin', 'acme');
UPDATE virtual_machines SET lease_expires = now() + interval '9 days', lease_due = now() + interval '9 days',
    lease_action = 'STOP' WHERE name = 'rival-1';
INSERT INTO roles (name, description, role_type, project_id)
    SELECT 'astronaut', 'walks in space', 'User', id FROM projects WHERE name = 'moon';
INSERT INTO role_rules (role_id, rule, permission, sort_order)
    SELECT id, 'listHosts', 'deny', 0 FROM roles WHERE name = 'astronaut';
INSERT INTO nic_secondary_ips (nic_id, network_id, ip_range_id, ip_address)
    SELECT id, network_id, ip_range_id, '10.1.0.250' FROM nics
    WHERE vm_id = (SELECT id FROM virtual_machines WHERE name = 'rival-1');
UPDATE nics SET network_id = (SELECT id FROM networks WHERE name = 'acme-isolated')
    WHERE vm_id = (SELECT id FROM virtual_machines WHERE name = 'acme-2');
INSERT INTO vm_security_groups SELECT v.id, g.id FROM virtual_machines v
    JOIN security_groups g ON g.account_id = v.account_id AND g.name = 'default' AND v.removed IS NULL;
INSERT INTO vm_affinity_groups SELECT v.id, g.id FROM virtual_machines v, affinity_groups g
    WHERE v.name = 'rival-1' AND g.name IN ('group of rival', 'of domain rivals');
INSERT INTO custom_actions (name, description, resource_type, role_types, parameters, details, success_message,
        error_message, timeout_seconds, enabled)
    VALUES ('blink', 'Let a lamp blink', 'VirtualMachine', '{Admin,ResourceAdmin,DomainAdmin,User}',
        '[{"name": "times", "type": "NUMBER", "validationformat": "NONE", "required": false}]', '{"lamp": "red"}',
        'It blinks', 'It does not', 5, true);
INSERT INTO guest_usage SELECT id, now(), 9000000000, 4096, 2048, 8192, 1024, 20, 10, 262144, 131072, 350, 4, 2, 8,
        1, 20, 10 FROM virtual_machines WHERE name = 'rival-1';
INSERT INTO host_usage SELECT id, now(), 1000, 9000, 1048576, 1250, 4, 2 FROM hosts;
INSERT INTO pool_usage SELECT id, now(), 5000, capacity_bytes FROM storage_pools;
INSERT INTO vm_affinity_groups SELECT v.id, g.id FROM virtual_machines v, affinity_groups g
    WHERE v.name = 'neighbour-1' AND g.name = 'of domain customers';
UPDATE events SET level = 'WARN', state = 'Completed', archived = false, event_type = 'VM.START',
    parent_uuid = gen_random_uuid(), created = '2020-02-02 12:00Z'
    WHERE resource_type = 'VirtualMachine'
        AND resource_id = (SELECT id FROM virtual_machines WHERE name = 'rival-1');
INSERT INTO events (event_type, description, account_id, user_id, archived)
    SELECT 'VM.STOP', 'an archived one', id, 2, true FROM accounts WHERE name = 'acme';
INSERT INTO resource_tags (resource_type, resource_id, key, value, customer, account_id)
    SELECT t.type, t.id, 'colour', CASE WHEN a.name = 'rival' THEN 'blue' ELSE 'red' END, 'c', a.id
    FROM (SELECT 'UserVm' AS type, id, account_id FROM virtual_machines WHERE name IN ('acme-1', 'rival-1')
          UNION ALL SELECT 'Template', id, account_id FROM templates WHERE name = 'acme private'
          UNION ALL SELECT 'ISO', id, account_id FROM templates WHERE name = 'acme iso'
          UNION ALL SELECT 'Volume', id, account_id FROM volumes WHERE name = 'DATA'
          UNION ALL SELECT 'VMSnapshot', id, account_id FROM vm_snapshots WHERE name = 'second'
          UNION ALL SELECT 'Snapshot', id, account_id FROM vm_snapshots WHERE name = 'volume of rival-1'
          UNION ALL SELECT 'Network', id, account_id FROM networks WHERE name = 'acme-isolated'
          UNION ALL SELECT 'SecurityGroup', id, account_id FROM security_groups WHERE description = 'Of rival'
          UNION ALL SELECT 'UserVm', v.id, v.account_id FROM virtual_machines v JOIN accounts a
                    ON a.id = v.account_id WHERE a.name = 'moon-account'
          UNION ALL SELECT 'Zone', id, 2 FROM zones WHERE name = 'small') t JOIN accounts a ON a.id = t.account_id
"""


def run(connection: Connection, statements: str) -> None:
    """Run statements that are separated by semicolons."""
    for statement in statements.split(";"):
        connection.execute(text(statement.replace(":", r"\:")))


def add_owners_and_things(connection: Connection) -> None:
    """Everything but VMs."""
    for statements in (OWNERS, TOPOLOGY, CATALOGUE, NETWORKS, GROUPS):
        run(connection, statements)


def finish_vms(connection: Connection) -> None:
    """States, groups, tags and events of the VMs that ``world`` deployed."""
    run(connection, AFTER_DEPLOYMENT)
