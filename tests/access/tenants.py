"""Accounts that are alike: each has one thing of every kind, in a state in which most can be done with it.

All that is a tenant's own is named ``<tenant>s-own...``, so that the name alone tells whose data an answer shows.

    ROOT (admin)
    |-- customers (customers-admin, a domain admin)
    |   `-- acme (acme and neighbour, users)
    |       `-- below (below-admin, a domain admin)
    `-- rivals (rival, a user; rivals-admin, a domain admin; opened, a user whose role may call everything)
"""

from sqlalchemy import text

from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.store.ledger.release import release_hosts
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World

RIVAL_ADMIN, BELOW, OPENED = "rivals-admin", "below-admin", "opened"
DOMAIN_OF = {
    USER: "acme",
    NEIGHBOUR: "acme",
    RIVAL: "rivals",
    DOMAIN_ADMIN: "customers",
    RIVAL_ADMIN: "rivals",
    BELOW: "below",
    OPENED: "rivals",
}
RESOURCE_ADMIN, DISABLED, DENIED = "resource-admin", "disabled-user", "denied-user"
ROLE_TYPES = {
    ADMIN: RoleType.ADMIN,
    RESOURCE_ADMIN: RoleType.RESOURCE_ADMIN,
    DOMAIN_ADMIN: RoleType.DOMAIN_ADMIN,
    RIVAL_ADMIN: RoleType.DOMAIN_ADMIN,
    BELOW: RoleType.DOMAIN_ADMIN,
    USER: RoleType.USER,
    NEIGHBOUR: RoleType.USER,
    RIVAL: RoleType.USER,
}
OTHERS = """
INSERT INTO roles (name, role_type) VALUES ('denied', 'User');
INSERT INTO role_rules (role_id, rule, permission, sort_order)
    SELECT id, '*', 'deny', 0 FROM roles WHERE name = 'denied';
INSERT INTO accounts (name, domain_id, account_type, role_id)
    SELECT p.name, d.id, p.type, r.id FROM (VALUES ('resource-admin', 'customers', 3, 'Resource Admin'),
        ('disabled-user', 'acme', 0, 'User'), ('denied-user', 'acme', 0, 'denied')) p(name, domain, type, role)
    JOIN domains d ON d.name = p.domain JOIN roles r ON r.name = p.role;
INSERT INTO users (username, account_id, state)
    SELECT name, id, CASE name WHEN 'disabled-user' THEN 'disabled' ELSE 'enabled' END FROM accounts
    WHERE name IN ('resource-admin', 'disabled-user', 'denied-user')
"""

STOPPED, RUNNING, DESTROYED, BARE, KEPT = "-stopped", "-running", "-destroyed", "-bare", "-kept"
"""Ends of names of VMs. The last two are stopped, too: to one nothing of its tenant's is attached, of the other
there is a snapshot."""

ACCOUNTS = """
INSERT INTO domains (name, parent_id, path, lineage, level)
    SELECT 'below', id, path || '/below', '', level + 1 FROM domains WHERE name = 'acme';
UPDATE domains d SET lineage = p.lineage || d.id || '/' FROM domains p
    WHERE p.id = d.parent_id AND d.name = 'below';
INSERT INTO accounts (name, domain_id, account_type, role_id) SELECT a.name, d.id, 2, r.id
    FROM (VALUES ('rivals-admin', 'rivals'), ('below-admin', 'below')) a(name, domain)
    JOIN domains d ON d.name = a.domain JOIN roles r ON r.name = 'Domain Admin';
INSERT INTO roles (name, role_type) VALUES ('opened', 'User');
INSERT INTO role_rules (role_id, rule, permission, sort_order) SELECT id, '*', 'allow', 0 FROM roles
    WHERE name = 'opened';
INSERT INTO accounts (name, domain_id, account_type, role_id)
    SELECT 'opened', d.id, 0, r.id FROM domains d, roles r WHERE d.name = 'rivals' AND r.name = 'opened';
INSERT INTO users (username, account_id) SELECT name, id FROM accounts
    WHERE name IN ('rivals-admin', 'below-admin', 'opened');
INSERT INTO zones (name, network_type, allocation_state, domain_id)
    SELECT 'kept to ' || name, 'Advanced', 'Enabled', id FROM domains WHERE name IN ('acme', 'rivals');
INSERT INTO service_offerings (name, display_text, cpu_number, cpu_mhz, memory_mib, domain_ids)
    SELECT 'kept to ' || name, 'Kept', 1, 500, 512, ARRAY[id] FROM domains WHERE name IN ('acme', 'rivals');
INSERT INTO disk_offerings (name, display_text, disk_gib, domain_ids)
    SELECT 'kept to ' || name, 'Kept', 1, ARRAY[id] FROM domains WHERE name IN ('acme', 'rivals');
INSERT INTO accounts (name, domain_id, account_type, role_id)
    SELECT a.name || m.suffix, a.domain_id, m.type, r.id
    FROM accounts a, (VALUES ('-project', 5), ('-member', 0)) m(suffix, type), roles r
    WHERE a.name IN ('acme', 'neighbour', 'rival', 'customers-admin', 'rivals-admin', 'below-admin', 'opened')
        AND r.name = 'User';
INSERT INTO projects (name, domain_id, account_id) SELECT replace(name, '-project', 's-own'), domain_id, id
    FROM accounts WHERE name LIKE '%-project';
INSERT INTO project_accounts (project_id, account_id, role) SELECT p.id, a.id, 'Admin'
    FROM projects p JOIN accounts a ON p.name IN (replace(a.name, '-member', '') || 's-own');
INSERT INTO project_accounts (project_id, account_id, role) SELECT p.id, a.id, 'Admin' FROM projects p, accounts a
    WHERE p.name = 'moon' AND a.name = 'acme-member';
CREATE VIEW tenants AS SELECT a.id AS account_id, a.domain_id, replace(a.name, '-project', '') || 's-own' AS own
    FROM accounts a WHERE replace(a.name, '-project', '')
        IN ('acme', 'neighbour', 'rival', 'customers-admin', 'rivals-admin', 'below-admin', 'opened')
"""

GROUPS = """
INSERT INTO security_groups (name, account_id) SELECT own || s, account_id
    FROM tenants, unnest(ARRAY['', '-busy']) s;
INSERT INTO security_group_rules (security_group_id, direction, protocol, start_port, end_port, cidr)
    SELECT g.id, d, 'tcp', 8080, 8080, '10.9.0.0/16' FROM security_groups g,
    unnest(ARRAY['ingress', 'egress']) d WHERE g.name LIKE '%s-own';
INSERT INTO affinity_groups (name, affinity_type, account_id, domain_id)
    SELECT own || s, 'host anti-affinity', account_id, domain_id FROM tenants, unnest(ARRAY['', '-busy']) s;
INSERT INTO ssh_key_pairs (name, account_id, fingerprint, public_key)
    SELECT own, account_id, 'aa:bb', 'ssh-rsa x' FROM tenants;
INSERT INTO instance_groups (name, account_id) SELECT own, account_id FROM tenants;
INSERT INTO dedicated_vlan_ranges (physical_network_id, account_id, first_vlan, last_vlan)
    SELECT p.id, t.account_id, 1000 + 10 * t.account_id, 1009 + 10 * t.account_id
    FROM tenants t, physical_networks p WHERE p.name = 'guests';
INSERT INTO annotations (annotation, entity_type, entity_uuid, account_id, user_id)
    SELECT g.name, 'INSTANCE_GROUP', g.uuid, g.account_id,
        coalesce((SELECT min(u.id) FROM users u WHERE u.account_id = g.account_id), (SELECT min(id) FROM users))
    FROM instance_groups g WHERE g.name LIKE '%s-own';
INSERT INTO user_data (name, account_id, content) SELECT own, account_id, 'aGVsbG8=' FROM tenants;
INSERT INTO templates (name, display_text, kind, template_type, format, hypervisor, size_bytes, physical_size_bytes,
        account_id, is_public, bootable)
    SELECT own || s, own, k.kind, 'USER', k.format, k.hypervisor, 1048576, 1048576, account_id, false, true
    FROM tenants, unnest(ARRAY['', '-busy']) s,
        (VALUES ('template', 'QCOW2', 'KVM'), ('iso', 'ISO', NULL)) k(kind, format, hypervisor);
INSERT INTO template_zones (template_id, zone_id, ready, status) SELECT t.id, z.id, true, 'Download Complete'
    FROM templates t, zones z WHERE t.name LIKE '%s-own%' AND z.name = 'small';
INSERT INTO networks (name, display_text, zone_id, network_offering_id, guest_type, acl_type, account_id, domain_id)
    SELECT t.own || n.suffix, t.own, z.id, o.id, 'Isolated', 'Account', t.account_id, t.domain_id
    FROM tenants t, (VALUES (''), ('-busy')) n(suffix), zones z, network_offerings o
    WHERE z.name = 'small' AND o.name = 'DefaultIsolatedNetworkOffering';
INSERT INTO ip_ranges (network_id, start_ip, end_ip, next_ip, gateway, netmask)
    SELECT id, '10.8.0.10', '10.8.0.19', '10.8.0.11', '10.8.0.1', '255.255.255.0' FROM networks
    WHERE name LIKE '%s-own%'
"""

MACHINES = """
UPDATE async_jobs j SET status = 1, phase = 'done', result = '{}', completed = now(), account_id = v.account_id
    FROM virtual_machines v WHERE v.id = j.instance_id AND v.name LIKE '%s-own-%';
INSERT INTO bulk_operations (command, account_id, user_id, vm_count)
    SELECT 'bulkStopVirtualMachine', v.account_id, min(v.user_id), count(*) FROM virtual_machines v
    WHERE v.name LIKE '%s-own-%' GROUP BY v.account_id;
UPDATE deployments d SET account_id = v.account_id FROM virtual_machines v
    WHERE v.deployment_id = d.id AND v.name LIKE '%s-own-%';
UPDATE virtual_machines SET state = 'Stopped'
    WHERE name LIKE '%s-own-stopped%' OR name LIKE '%s-own-bare' OR name LIKE '%s-own-kept';
UPDATE virtual_machines SET state = 'Destroyed' WHERE name LIKE '%s-own-destroyed';
UPDATE virtual_machines v SET state = 'Running', group_id = g.id, iso_id = i.id, template_id = t.id,
        user_id = (SELECT u.id FROM users u WHERE u.account_id = v.account_id)
    FROM instance_groups g, templates i, templates t WHERE v.name LIKE '%s-own-running'
    AND g.account_id = v.account_id AND g.name LIKE '%s-own'
    AND i.account_id = v.account_id AND i.name LIKE '%s-own-busy' AND i.kind = 'iso'
    AND t.account_id = v.account_id AND t.name LIKE '%s-own-busy' AND t.kind = 'template';
UPDATE volumes v SET state = 'Ready', name = m.name FROM virtual_machines m
    WHERE m.id = v.vm_id AND m.name LIKE '%s-own-%';
INSERT INTO volumes (name, account_id, zone_id, volume_type, size_bytes, disk_offering_id, state, standalone, vm_id,
        device_id)
    SELECT replace(m.name, '-stopped', s.suffix), m.account_id, m.zone_id, 'DATADISK', 1073741824, o.id,
        'Allocated', true, CASE s.suffix WHEN '-attached' THEN m.id END,
        CASE s.suffix WHEN '-attached' THEN 1 END
    FROM virtual_machines m, (VALUES ('-free'), ('-attached')) s(suffix), disk_offerings o
    WHERE m.name LIKE '%s-own-stopped' AND o.name = '20 GiB';
INSERT INTO vm_snapshots (name, display_name, vm_id, account_id, snapshot_type, state, is_current)
    SELECT replace(name, '-kept', ''), replace(name, '-kept', ''), id, account_id, 'Disk', 'Ready', true
    FROM virtual_machines WHERE name LIKE '%s-own-kept' OR name LIKE '%s-own-stopped-project';
INSERT INTO vm_snapshots (name, display_name, vm_id, volume_id, account_id, snapshot_type, state, is_current)
    SELECT replace(m.name, '-kept', '-of-volume'), replace(m.name, '-kept', '-of-volume'), m.id, v.id, m.account_id,
        'Disk', 'Ready', false
    FROM virtual_machines m JOIN volumes v ON v.vm_id = m.id AND v.volume_type = 'ROOT'
    WHERE m.name LIKE '%s-own-kept' OR m.name LIKE '%s-own-stopped-project';
INSERT INTO snapshot_policies (account_id, volume_id, interval_type, schedule, time_zone, max_snapshots, next_run)
    SELECT v.account_id, v.id, 'DAILY', '30:02', 'UTC', 3, now() + interval '1 year'
    FROM virtual_machines m JOIN volumes v ON v.vm_id = m.id AND v.volume_type = 'ROOT'
    WHERE m.name LIKE '%s-own-kept' OR m.name LIKE '%s-own-stopped-project';
INSERT INTO vm_schedules (account_id, vm_id, description, action, schedule, time_zone, start_date, next_run)
    SELECT account_id, id, replace(name, '-kept', ''), 'STOP', '30 2 * * *', 'UTC', now(), now() + interval '1 year'
    FROM virtual_machines WHERE name LIKE '%s-own-kept' OR name LIKE '%s-own-stopped-project';
INSERT INTO project_invitations (project_id, account_id, role)
    SELECT p.id, a.id, 'Regular' FROM projects p JOIN accounts a ON p.name = a.name || 's-own';
INSERT INTO roles (name, role_type, project_id)
    SELECT p.name, 'User', p.id FROM projects p JOIN accounts a ON p.name = a.name || 's-own';
INSERT INTO role_rules (role_id, rule, permission, sort_order)
    SELECT id, 'listHosts', 'deny', 0 FROM roles WHERE project_id IS NOT NULL;
INSERT INTO nics (vm_id, network_id, ip_range_id, ip_address, mac_address, gateway, netmask, device_id, is_default)
    SELECT m.id, n.id, r.id, '10.8.0.10', '02:00:00:00:99:' || lpad(to_hex(m.id % 256), 2, '0'), '10.8.0.1',
        '255.255.255.0', 1, false
    FROM virtual_machines m JOIN networks n ON n.account_id = m.account_id AND n.name LIKE '%s-own-busy'
    JOIN ip_ranges r ON r.network_id = n.id WHERE m.name LIKE '%s-own-stopped';
INSERT INTO nic_secondary_ips (nic_id, network_id, ip_range_id, ip_address)
    SELECT id, network_id, ip_range_id, '10.8.0.11' FROM nics WHERE mac_address LIKE '02:00:00:00:99:%';
INSERT INTO vm_security_groups SELECT v.id, g.id FROM virtual_machines v
    JOIN security_groups g ON g.account_id = v.account_id AND g.name LIKE '%s-own-busy'
    WHERE v.name LIKE '%s-own-running';
INSERT INTO vm_affinity_groups SELECT v.id, g.id FROM virtual_machines v
    JOIN affinity_groups g ON g.account_id = v.account_id AND g.name LIKE '%s-own-busy'
    WHERE v.name LIKE '%s-own-running';
INSERT INTO resource_tags (resource_type, resource_id, key, value, account_id)
    SELECT x.type, x.id, 'of', x.name, x.account_id FROM
        (SELECT 'UserVm' AS type, id, name, account_id FROM virtual_machines
         UNION ALL SELECT CASE kind WHEN 'iso' THEN 'ISO' ELSE 'Template' END, id, name, account_id FROM templates
         UNION ALL SELECT 'Volume', id, name, account_id FROM volumes
         UNION ALL SELECT CASE WHEN volume_id IS NULL THEN 'VMSnapshot' ELSE 'Snapshot' END, id, name, account_id
            FROM vm_snapshots
         UNION ALL SELECT 'SnapshotPolicy', p.id, v.name, p.account_id FROM snapshot_policies p
            JOIN volumes v ON v.id = p.volume_id
         UNION ALL SELECT 'Network', id, name, account_id FROM networks
         UNION ALL SELECT 'SecurityGroup', id, name, account_id FROM security_groups) x
    WHERE x.name LIKE '%s-own%';
INSERT INTO resource_details (resource_type, resource_id, key, value, account_id)
    SELECT resource_type, resource_id, 'of', value, account_id FROM resource_tags
    WHERE resource_type IN ('Volume', 'Network', 'Snapshot') AND key = 'of' AND value LIKE '%s-own%';
INSERT INTO events (event_type, description, account_id) SELECT 'VM.STOP', own, account_id FROM tenants
"""

USERS_MAY = ("allow.user.expunge.recover.vm", "allow.user.force.stop.vm", "allow.user.create.projects")


def own(tenant: str) -> str:
    """What the names of all that is a tenant's begin with."""
    return f"{tenant}s-own"


def add_tenants(world: World) -> None:
    """Make the tenants and all that is theirs, with keys for everybody, and who may do little or nothing."""
    _run(world, ACCOUNTS)
    _run(world, OTHERS)
    _run(world, GROUPS)
    for tenant, domain in DOMAIN_OF.items():
        for state in (STOPPED, RUNNING, DESTROYED, BARE, KEPT):
            world.deploy(f"{own(tenant)}{state}", tenant, domain)
        world.deploy(f"{own(tenant)}{STOPPED}-project", projectid=world.id_of("projects", own(tenant)))
    _run(world, MACHINES)
    with world.engine.begin() as connection:
        idle = "SELECT id FROM virtual_machines WHERE state IN ('Stopped', 'Destroyed')"
        release_hosts(connection, list(connection.execute(text(idle)).scalars()))
    for name in USERS_MAY:
        world.client().call("updateConfiguration", name=name, value="true")
    for name in (*ROLE_TYPES, OPENED):
        world.client(name)


def _run(world: World, statements: str) -> None:
    with world.engine.begin() as connection:
        for statement in statements.split(";"):
            connection.execute(text(statement.replace(":", r"\:")))
