"""Lists cost a number of statements that does not depend on how much they answer."""

import pytest
from sqlalchemy import Connection, Engine, select, text

from bulkdeploy.commands.call import Call
from bulkdeploy.domain.accounts.accounts import Caller, RoleType
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.tables.accounts import users
from bulkdeploy.store.virtual_machines.virtual_machines import virtual_machine_rows
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import SMALL_ZONE
from tests.lists.test_shapes import COMMANDS, EMPTY, everything
from tests.support.runs.statements import statements_of
from tests.support.zones.zone_files import load_zone

ADMIN_ID = 2
MOST_STATEMENTS = 9

BATCH = """
INSERT INTO domains (name, parent_id, path, lineage, level)
    SELECT 'd' || i, 1, 'ROOT/d' || i, '/1/' || i + 1000 || '/', 1 FROM generate_series({first}, {last}) i;
INSERT INTO accounts (name, domain_id, account_type, role_id)
    SELECT 'a' || i, 1, 0, 4 FROM generate_series({first}, {last}) i;
INSERT INTO accounts (name, domain_id, account_type, role_id)
    SELECT 'p' || i, 1, 5, 4 FROM generate_series({first}, {last}) i;
INSERT INTO projects (name, domain_id, account_id)
    SELECT a.name, 1, a.id FROM accounts a JOIN generate_series({first}, {last}) i ON a.name = 'p' || i;
INSERT INTO users (username, account_id)
    SELECT a.name, a.id FROM accounts a JOIN generate_series({first}, {last}) i ON a.name = 'a' || i;
INSERT INTO roles (name, role_type) SELECT 'r' || i, 'User' FROM generate_series({first}, {last}) i;
INSERT INTO zones (name, network_type) SELECT 'z' || i, 'Basic' FROM generate_series({first}, {last}) i;
INSERT INTO pods (zone_id, name) SELECT 1, 'p' || i FROM generate_series({first}, {last}) i;
INSERT INTO clusters (zone_id, pod_id, name, hypervisor) SELECT 1, 1, 'c' || i, 'KVM'
    FROM generate_series({first}, {last}) i;
INSERT INTO hosts (zone_id, pod_id, cluster_id, name, ip_address, hypervisor, cpu_cores, cpu_mhz, memory_mib)
    SELECT 1, 1, 1, 'h' || i, '10.0.0.1', 'KVM', 1, 1, 1 FROM generate_series({first}, {last}) i;
INSERT INTO host_capacity SELECT h.id, 1, 0, 1, 0, 1, 0
    FROM hosts h JOIN generate_series({first}, {last}) i ON h.name = 'h' || i;
INSERT INTO storage_pools (zone_id, name, scope, capacity_bytes) SELECT 1, 's' || i, 'ZONE', 1
    FROM generate_series({first}, {last}) i;
INSERT INTO service_offerings (name, display_text, domain_ids) SELECT 'o' || i, '', '{{1}}'
    FROM generate_series({first}, {last}) i;
INSERT INTO disk_offerings (name, display_text, disk_gib, zone_ids) SELECT 'o' || i, '', 1, '{{1}}'
    FROM generate_series({first}, {last}) i;
INSERT INTO templates (name, display_text, kind, format, size_bytes, physical_size_bytes, account_id)
    SELECT 't' || i, '', CASE i % 2 WHEN 0 THEN 'iso' ELSE 'template' END, 'RAW', 1, 1, 2
    FROM generate_series({first}, {last}) i;
INSERT INTO template_zones (template_id, zone_id) SELECT t.id, 1 FROM templates t
    JOIN generate_series({first}, {last}) i ON t.name = 't' || i;
INSERT INTO network_offerings (name, display_text, guest_type) SELECT 'n' || i, '', 'L2'
    FROM generate_series({first}, {last}) i;
INSERT INTO networks (name, display_text, zone_id, network_offering_id, guest_type, acl_type, account_id, domain_id)
    SELECT 'n' || i, '', 1, 1, 'L2', 'Account', 2, 1 FROM generate_series({first}, {last}) i;
INSERT INTO os_categories (name) SELECT 'c' || i FROM generate_series({first}, {last}) i;
INSERT INTO os_types (name) SELECT 't' || i FROM generate_series({first}, {last}) i;
INSERT INTO security_groups (name, account_id) SELECT 'g' || i, 2 FROM generate_series({first}, {last}) i;
INSERT INTO security_group_rules (security_group_id, direction, protocol)
    SELECT g.id, 'ingress', 'tcp' FROM security_groups g
    JOIN generate_series({first}, {last}) i ON g.name = 'g' || i;
INSERT INTO affinity_groups (name, affinity_type, account_id, domain_id) SELECT 'g' || i, 'host affinity', 2, 1
    FROM generate_series({first}, {last}) i;
INSERT INTO ssh_key_pairs (name, account_id, fingerprint, public_key) SELECT 'k' || i, 2, '', ''
    FROM generate_series({first}, {last}) i;
INSERT INTO instance_groups (name, account_id) SELECT 'g' || i, 2 FROM generate_series({first}, {last}) i;
INSERT INTO user_data (name, account_id, content) SELECT 'd' || i, 2, '' FROM generate_series({first}, {last}) i;
INSERT INTO deployments (bulk, account_id, user_id, zone_id, vm_count, asked_count, config, pinned, plan)
    VALUES (false, 2, 2, 1, 1, 1, '{{}}', false, '{{}}');
INSERT INTO virtual_machines (name, display_name, instance_name, account_id, user_id, zone_id, hypervisor,
        service_offering_id, template_id, cpu_number, cpu_mhz, memory_mib, state, deployment_id)
    SELECT 'v' || i, '', '', 2, 2, 1, 'KVM', 1, 1, 1, 1, 1, 'Running', 1 FROM generate_series({first}, {last}) i;
INSERT INTO nics (vm_id, network_id, mac_address, device_id, is_default) SELECT v.id, 1, 'm' || i, 0, true
    FROM virtual_machines v JOIN generate_series({first}, {last}) i ON v.name = 'v' || i;
INSERT INTO volumes (name, account_id, zone_id, vm_id, volume_type, size_bytes, state)
    SELECT v.name, 2, 1, v.id, 'ROOT', 1, 'Ready' FROM virtual_machines v
    JOIN generate_series({first}, {last}) i ON v.name = 'v' || i;
INSERT INTO vm_security_groups SELECT v.id, 1 FROM virtual_machines v
    JOIN generate_series({first}, {last}) i ON v.name = 'v' || i;
INSERT INTO vm_affinity_groups SELECT v.id, 1 FROM virtual_machines v
    JOIN generate_series({first}, {last}) i ON v.name = 'v' || i;
INSERT INTO async_jobs (kind, cmd, account_id, user_id, instance_type, instance_id)
    SELECT '', '', 2, 2, 'VirtualMachine', v.id FROM virtual_machines v
    JOIN generate_series({first}, {last}) i ON v.name = 'v' || i;
INSERT INTO resource_tags (resource_type, resource_id, key, value, account_id)
    SELECT 'UserVm', v.id, 'k', 'v', 2 FROM virtual_machines v
    JOIN generate_series({first}, {last}) i ON v.name = 'v' || i;
INSERT INTO events (event_type, description, account_id) SELECT 'VM.STOP', '', 2
    FROM generate_series({first}, {last}) i
"""


def add(connection: Connection, first: int, last: int) -> None:
    """One of everything per number from first to last."""
    for statement in BATCH.format(first=first, last=last).split(";"):
        connection.execute(text(statement))


def statements_per_list(system: System, connection: Connection) -> dict[str, int]:
    """How many statements each list runs for all that a root admin may see."""
    user_uuid = connection.execute(select(users.c.uuid).where(users.c.id == ADMIN_ID)).scalar_one()
    owner = owners_by_id(connection, [ADMIN_ID])[ADMIN_ID]
    caller = Caller(ADMIN_ID, user_uuid, "admin", owner, 1, RoleType.ADMIN)
    counts = {}
    for name, command in COMMANDS.items():
        texts = {"true": True, "-1": -1}
        arguments = {key: texts.get(value, value) for key, value in everything(command).items()}
        with statements_of(system.engine) as statements:
            page = command.handler(Call(command, caller, arguments, system, connection))
            assert page.count == len(list(page.rows))
        counts[name] = len(statements)
    return counts


@pytest.fixture
def populated(engine: Engine, cipher: FernetCipher) -> Engine:
    """The small zone with one more of everything."""
    load_zone(engine, cipher, SMALL_ZONE)
    with engine.begin() as connection:
        add(connection, 1, 1)
    return engine


def test_lists_cost_the_same_for_one_row_and_for_a_thousand(populated: Engine, system: System) -> None:
    """No list asks the database once per row: 1 of everything and 1,000 take the same statements."""
    with populated.connect() as connection:
        few = statements_per_list(system, connection)
    with populated.begin() as connection:
        add(connection, 2, 1000)
    with populated.connect() as connection:
        assert statements_per_list(system, connection) == few
    assert {name: count for name, count in few.items() if count > MOST_STATEMENTS} == {}
    assert {name for name, count in few.items() if count == 0} <= EMPTY | {
        *("listDeploymentPlanners", "listAffinityGroupTypes", "listEventTypes", "listSupportedNetworkServices"),
        *("listStorageProviders", "listHypervisorCapabilities", "listManagementServers"),
        "listManagementServersMetrics",
    }


def test_job_results_cost_the_same_for_one_vm_and_for_two_hundred(populated: Engine) -> None:
    """A batch of finished jobs reads its VMs in as many statements as one job does."""
    with populated.begin() as connection:
        add(connection, 2, 200)
    costs = []
    with populated.connect() as connection:
        ids = list(connection.execute(text("SELECT id FROM virtual_machines ORDER BY id")).scalars())
        for batch in (ids[:1], ids):
            with statements_of(populated) as statements:
                assert sorted(virtual_machine_rows(connection, batch)) == batch
            costs.append(len(statements))
    assert len(ids) == 200
    assert costs[0] == costs[1] <= 5
