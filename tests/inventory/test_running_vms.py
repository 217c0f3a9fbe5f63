"""VMs that a file says run already: they hold what any VM holds, and every invariant is kept."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.services.inventory.inventory import load_inventory
from bulkdeploy.services.system import Cipher
from bulkdeploy.store.audit import check_invariants
from tests.inventory.support import BASIC, DEMO, TINY, all_rows, changed, rows, value, write

ON_HOSTS = """
    SELECT h.name, count(*) FROM virtual_machines v JOIN hosts h ON h.id = v.host_id
    GROUP BY h.name ORDER BY h.name
"""


@pytest.mark.parametrize("path", [DEMO, BASIC], ids=lambda path: path.stem)
def test_every_invariant_holds_after_loading(engine: Engine, cipher: Cipher, path: Path) -> None:
    """Claims, used room, allocated storage, addresses and counts of accounts and domains add up."""
    load_inventory(engine, cipher, path)
    findings = check_invariants(engine)
    assert [breach for finding in findings for breach in finding.breaches] == []
    compared = {finding.name: finding.compared for finding in findings}
    vms = value(engine, "SELECT count(*) FROM virtual_machines")
    assert vms > 0
    assert compared["vms_have_claims"] == compared["volumes_have_claims"] == compared["addresses"] == vms


def test_a_running_vm_has_everything(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """State, place, names, volume, nic with the range's gateway, and a deployment without jobs."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    query = (
        "SELECT v.name, v.display_name, v.state, h.name, c.name, p.name, o.state, o.name = 'ROOT-' || v.id,"
        " o.size_bytes, s.name, host(n.ip_address), n.gateway, n.netmask, n.is_default, d.bulk, d.vm_count,"
        " v.instance_name = 'i-' || v.account_id || '-' || v.id || '-VM', u.username"
        " FROM virtual_machines v JOIN hosts h ON h.id = v.host_id JOIN clusters c ON c.id = v.cluster_id"
        " JOIN pods p ON p.id = v.pod_id JOIN volumes o ON o.vm_id = v.id JOIN storage_pools s ON s.id = o.pool_id"
        " JOIN nics n ON n.vm_id = v.id JOIN deployments d ON d.id = v.deployment_id"
        " JOIN users u ON u.id = v.user_id ORDER BY v.id"
    )
    place = ("cluster", "pod", "Ready", True, 2 * 1024**3, "primary")
    network = ("10.1.0.1", "255.255.255.0", True, False, 3, True, "ann")
    assert rows(engine, query) == [
        ("web-1", "web-1", "Running", "host-1", *place, "10.1.0.10", *network),
        ("web-2", "web-2", "Running", "host-2", *place, "10.1.0.11", *network),
        ("web-3", "web-3", "Running", "host-1", *place, "10.1.0.12", *network),
    ]
    assert value(engine, "SELECT count(DISTINCT mac_address) FROM nics") == 3
    assert value(engine, "SELECT host(next_ip) FROM ip_ranges") == "10.1.0.13"
    assert value(engine, "SELECT count(*) FROM async_jobs") == 0


def test_counts_go_up_the_whole_tree(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """The account, its domain and ROOT count the same: VMs, volumes, cores, MiB and bytes."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    counts = rows(engine, "SELECT owner_kind, resource_type, amount FROM resource_counts ORDER BY 1, owner_id, 2")
    amounts = [(0, 3), (2, 3), (8, 3), (9, 1536), (10, 6 * 1024**3)]
    assert counts == [
        (kind, resource, amount) for kind in ("account", "domain", "domain") for resource, amount in amounts
    ]


def test_no_limit_binds_what_runs_already(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A file states facts: VMs above their account's limit are counted all the same."""
    file = changed("    users: [{username: ann}]\n", "    users: [{username: ann}]\n    limits: {user_vm: 1}\n")
    load_inventory(engine, cipher, write(tmp_path, file))
    assert (
        value(engine, "SELECT amount FROM resource_counts WHERE owner_kind = 'account' AND resource_type = 0") == 3
    )


def test_a_load_grows_by_the_difference(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A higher count makes the missing VMs, numbered on, and the turn of hosts goes on where it was."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    report = load_inventory(engine, cipher, write(tmp_path, changed("count: 3", "count: 6")))
    assert dict(report.added) == {"virtual machines": 3}
    names = [name for (name,) in rows(engine, "SELECT name FROM virtual_machines ORDER BY id")]
    assert names == [f"web-{number}" for number in range(1, 7)]
    assert rows(engine, ON_HOSTS) == [("host-1", 3), ("host-2", 3)]
    assert rows(engine, "SELECT vm_count, asked_count FROM deployments") == [(6, 6)]
    assert [finding.breaches for finding in check_invariants(engine) if finding.breaches] == []


def test_a_destroyed_vm_does_not_come_back(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """What was deployed once counts as made, whatever became of it."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    with engine.begin() as connection:
        connection.execute(text("UPDATE virtual_machines SET removed = now() WHERE name = 'web-2'"))
    before = all_rows(engine)
    load_inventory(engine, cipher, write(tmp_path, TINY))
    assert all_rows(engine) == before


def test_hosts_that_cannot_run_vms_are_left_out(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Unless it names hosts, a load goes to hosts that are Up and Enabled and carry the offering's tags."""
    hosts = '[{names: "host-{1..2}", first_ip: 10.0.0.11,'
    more = (
        "[{names: down, first_ip: 10.0.0.1, state: Down, size: s}, {names: kept, first_ip: 10.0.0.2, size: s,"
        " resource_state: Maintenance}, {names: other, first_ip: 10.0.0.3, size: s, tags: [b]}, " + hosts[1:]
    )
    file = changed(hosts, more).replace("8 GiB}", "8 GiB, tags: [a, b]}")
    file = changed("pods:\n", "host_sizes: [{name: s, cpu_cores: 4, cpu_mhz: 2000, memory: 8 GiB}]\npods:\n", file)
    file = changed("memory: 512 MiB}", "memory: 512 MiB, host_tags: [a]}", file)
    load_inventory(engine, cipher, write(tmp_path, file))
    assert rows(engine, ON_HOSTS) == [("host-1", 2), ("host-2", 1)]


def test_named_hosts_are_used_as_they_are(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """VMs can be said to run on a host in maintenance, by name."""
    file = changed("memory: 8 GiB}", "memory: 8 GiB, resource_state: Maintenance}")
    file = changed("count: 3}", "count: 3, hosts: host-2}", file)
    load_inventory(engine, cipher, write(tmp_path, file))
    assert rows(engine, ON_HOSTS) == [("host-2", 3)]


def test_guest_limits_move_vms_on(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A host that has its VMs is passed over; when all have, the file is refused."""
    limited = changed("memory: 8 GiB}", "memory: 8 GiB, vms_limit: 2}", changed("count: 3", "count: 4"))
    load_inventory(engine, cipher, write(tmp_path, limited))
    assert rows(engine, ON_HOSTS) == [("host-1", 2), ("host-2", 2)]
    with pytest.raises(InvalidInventory, match="count: 0 of 1 VMs fit"):
        load_inventory(engine, cipher, write(tmp_path, changed("count: 4", "count: 5", limited)))


def test_strict_anti_affinity_is_kept(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """One VM of a strict anti-affinity group per host, over all loads of the group."""
    apart = changed("count: 3}", "count: 1, affinity_groups: [apart]}")
    load_inventory(engine, cipher, write(tmp_path, apart))
    second = "count: 1, affinity_groups: [apart]}, {name: db, account: ann, offering: Small, template: Debian,"
    both = changed("count: 1, affinity_groups: [apart]}", f"{second} count: 1, affinity_groups: [apart]}}", apart)
    load_inventory(engine, cipher, write(tmp_path, both))
    assert rows(engine, ON_HOSTS) == [("host-1", 1), ("host-2", 1)]
    third = both.replace(
        "template: Debian, count: 1, affinity_groups: [apart]}]",
        "template: Debian, count: 2, affinity_groups: [apart]}]",
    )
    with pytest.raises(InvalidInventory, match="count: 0 of 1 VMs fit"):
        load_inventory(engine, cipher, write(tmp_path, third))


def test_disks_go_where_most_room_is(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Three disks of alike size spread over pools of unlike size by the room that is left."""
    pools = "[{name: one, capacity: 3 GiB}, {name: two, capacity: 5 GiB}]"
    load_inventory(engine, cipher, write(tmp_path, changed("[{name: primary, capacity: 100 GiB}]", pools)))
    allocated = rows(engine, "SELECT name, allocated_bytes / 1073741824 FROM storage_pools ORDER BY name")
    assert allocated == [("one", 2), ("two", 4)]


def test_pools_fill_evenly_and_to_their_promise(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Disks go to the pool with most room, up to size times over-provisioning; then to the zone's pools."""
    small = "[{name: one, capacity: 2 GiB}, {name: two, capacity: 2 GiB}]"
    file = changed("[{name: primary, capacity: 100 GiB}]", small, changed("count: 3", "count: 6"))
    file = changed("pods:\n", "storage_pools: [{name: wide, capacity: 2 GiB}]\npods:\n", file)
    load_inventory(engine, cipher, write(tmp_path, file))
    allocated = rows(engine, "SELECT name, allocated_bytes / 1073741824 FROM storage_pools ORDER BY name")
    assert allocated == [("one", 4), ("two", 4), ("wide", 4)]
    with pytest.raises(InvalidInventory, match="count: 0 of 1 VMs fit"):
        load_inventory(engine, cipher, write(tmp_path, changed("count: 6", "count: 7", file)))


def test_local_disks_lie_on_their_host(engine: Engine, cipher: Cipher) -> None:
    """With an offering for local storage the volume is in a pool of the VM's own host."""
    load_inventory(engine, cipher, BASIC)
    query = (
        "SELECT count(*), count(*) FILTER (WHERE s.host_id = v.host_id AND s.scope = 'HOST')"
        " FROM virtual_machines v JOIN volumes o ON o.vm_id = v.id JOIN storage_pools s ON s.id = o.pool_id"
    )
    assert rows(engine, query) == [(3, 3)]


def test_addresses_come_from_the_pods_range(engine: Engine, cipher: Cipher) -> None:
    """In a Basic zone a VM's address is one of its pod's range, and it is in the groups that the load names."""
    load_inventory(engine, cipher, BASIC)
    assert [ip for (ip,) in rows(engine, "SELECT host(ip_address) FROM nics ORDER BY 1")] == [
        "10.64.1.10",
        "10.64.1.11",
        "10.64.1.12",
    ]
    assert value(engine, "SELECT count(*) FROM vm_security_groups") == 6


def test_a_name_that_another_vm_has_is_refused(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Two VMs of a zone never share a host name, whatever the capitals."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    with engine.begin() as connection:
        connection.execute(text("UPDATE virtual_machines SET name = 'WEB-4' WHERE name = 'web-3'"))
    with pytest.raises(InvalidInventory, match="a VM that is not of this load is called web-4 already"):
        load_inventory(engine, cipher, write(tmp_path, changed("count: 3", "count: 4")))


def test_the_demo_zone_has_something_to_level(engine: Engine, cipher: Cipher) -> None:
    """The sample zone starts uneven: the admin's VMs differ from cluster to cluster, and one has none."""
    load_inventory(engine, cipher, DEMO)
    query = """
        SELECT count(v.id) FROM clusters c
        LEFT JOIN virtual_machines v ON v.cluster_id = c.id AND v.account_id = 2
        WHERE c.hypervisor = 'KVM' GROUP BY c.id ORDER BY 1
    """
    assert [count for (count,) in rows(engine, query)] == [0, 0, 0, 0, 1, 3, 9, 14]
    assert [value(engine, f"SELECT count(*) FROM {table}") for table in ("pods", "clusters", "hosts")] == [
        3,
        12,
        120,
    ]
