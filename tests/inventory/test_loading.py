"""Loading: whole or not at all, and twice is once."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.services.inventory.inventory import load_inventory
from bulkdeploy.services.system import Cipher
from tests.inventory.support import BASIC, DEMO, SMALL, TINY, all_rows, changed, rows, value, write


@pytest.mark.parametrize("path", [SMALL, DEMO, BASIC], ids=lambda path: path.stem)
def test_loading_twice_changes_nothing(engine: Engine, cipher: Cipher, path: Path) -> None:
    """The second load of a file adds and changes no row of any table."""
    first = load_inventory(engine, cipher, path)
    before = all_rows(engine)
    second = load_inventory(engine, cipher, path)
    assert first.added["zones"] == 1
    assert (dict(second.added), dict(second.changed)) == ({}, {})
    assert all_rows(engine) == before


def test_a_bad_file_writes_nothing(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A file with one mistake in its last line leaves the database as it was."""
    before = all_rows(engine)
    with pytest.raises(InvalidInventory):
        load_inventory(engine, cipher, write(tmp_path, changed("count: 3", "count: three")))
    assert all_rows(engine) == before


def test_what_only_the_database_can_refuse_writes_nothing(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """VMs that do not fit are found last of all, told with their line, and nothing of the file stays."""
    before = all_rows(engine)
    with pytest.raises(InvalidInventory) as refused:
        load_inventory(engine, cipher, write(tmp_path, changed("count: 3", "count: 40")))
    (problem,) = refused.value.problems
    assert problem.startswith("zone.yaml:24: pods[0].clusters[0].load[0]: count: 32 of 40 VMs fit on the 2 host(s)")
    assert all_rows(engine) == before


def test_a_missing_file_is_refused(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A path that cannot be read is told by name."""
    with pytest.raises(InvalidInventory, match=r"none\.yaml: the file cannot be read"):
        load_inventory(engine, cipher, tmp_path / "none.yaml")


def test_a_changed_file_updates_what_differs(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """More cores and another state reach the host and its capacity; ids and uuids stay."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    before = rows(engine, "SELECT id, uuid FROM hosts ORDER BY id")
    file = changed("cpu_cores: 4", "cpu_cores: 8, resource_state: Maintenance, tags: [a, b]")
    file = changed("hypervisor: KVM\n", "hypervisor: KVM\n        cpu_overcommit: 1.5\n", file)
    report = load_inventory(engine, cipher, write(tmp_path, file))
    assert dict(report.changed) == {"clusters": 1, "hosts": 2, "host capacities": 2}
    assert dict(report.added) == {}
    assert rows(engine, "SELECT id, uuid FROM hosts ORDER BY id") == before
    assert rows(engine, "SELECT cpu_cores, resource_state, tags FROM hosts WHERE name = 'host-1'") == [
        (8, "Maintenance", ["a", "b"])
    ]
    assert rows(engine, "SELECT DISTINCT cpu_mhz_limit, memory_mib_limit, vms_limit FROM host_capacity") == [
        (24000, 8192, 150)
    ]


def test_what_a_file_no_longer_mentions_stays(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Leaving things out of a file removes nothing."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    counted = "SELECT (SELECT count(*) FROM hosts), (SELECT count(*) FROM virtual_machines)"
    before = rows(engine, counted)
    shorter = changed("host-{1..2}", "host-1", changed("count: 3", "count: 1"))
    report = load_inventory(engine, cipher, write(tmp_path, shorter))
    assert (dict(report.added), dict(report.changed)) == ({}, {})
    assert rows(engine, counted) == before == [(2, 3)]


def test_overcommit_is_rounded_down(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A host never promises a fraction of a MHz or MiB that it does not have."""
    file = changed("hypervisor: KVM\n", "hypervisor: KVM\n        cpu_overcommit: 1.001\n")
    file = changed("cpu_mhz: 2000", "cpu_mhz: 2001, vms_limit: 7", file)
    load_inventory(engine, cipher, write(tmp_path, file))
    assert rows(engine, "SELECT DISTINCT cpu_mhz_limit, vms_limit FROM host_capacity") == [(8012, 7)]


def test_overcommit_comes_from_the_settings_where_a_cluster_gives_none(
    engine: Engine, cipher: Cipher, tmp_path: Path
) -> None:
    """``cpu.overprovisioning.factor`` of the file is what clusters without ``cpu_overcommit`` get."""
    file = changed("version: 1\n", "version: 1\nconfiguration: {cpu.overprovisioning.factor: 2.5}\n")
    load_inventory(engine, cipher, write(tmp_path, file))
    assert rows(engine, "SELECT cpu_overcommit::text, memory_overcommit::text FROM clusters") == [("2.5", "1.0")]
    assert (
        value(engine, "SELECT value FROM configuration_values WHERE name = 'cpu.overprovisioning.factor'") == "2.5"
    )


def test_capacity_below_what_is_claimed_is_refused(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A host cannot be made smaller than the VMs on it."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    before = all_rows(engine)
    with pytest.raises(InvalidInventory) as refused:
        load_inventory(engine, cipher, write(tmp_path, changed("memory: 8 GiB", "memory: 512 MiB")))
    (problem,) = refused.value.problems
    assert problem.startswith(
        "zone.yaml:22: pods[0].clusters[0].hosts[0]: host host-1 would hold 8000 MHz, 512 MiB"
    )
    assert problem.endswith("its VMs have 1000 MHz, 1024 MiB and are 2")
    assert all_rows(engine) == before


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("{name: tiny}", "{name: tiny, network_type: Basic}", "zones tiny: it is stored with another network_type"),
        ("hypervisor: KVM\n", "hypervisor: Simulator\n", "clusters cluster: it is stored with another hypervisor"),
        ("name: cluster\n", "name: other\n", "hosts host-1: it is stored with another cluster"),
        ("type: host anti-affinity", "type: host affinity", "type: the group exists with another type"),
        ("{name: net, ", "{name: net, offering: DefaultL2NetworkOffering, ", "offering: the network exists with"),
        ("{name: net, ", "{name: net, account: ann, ", "account: the network exists with another account"),
        ("account: ann,", "account: admin,", "account: the load was written for another account before"),
        ("start: 10.1.0.10", "start: 10.1.0.5", "the network has a range from 10.1.0.10 to 10.1.0.20"),
    ],
)
def test_what_never_changes_is_refused(
    engine: Engine, cipher: Cipher, tmp_path: Path, old: str, new: str, rule: str
) -> None:
    """A file that contradicts what is stored, where nothing may change, is refused and writes nothing."""
    neutral = TINY.replace("hypervisor: KVM, size", "format: RAW, size")
    load_inventory(engine, cipher, write(tmp_path, neutral))
    before = all_rows(engine)
    with pytest.raises(InvalidInventory) as refused:
        load_inventory(engine, cipher, write(tmp_path, changed(old, new, neutral)))
    assert rule in refused.value.problems[0]
    assert all_rows(engine) == before


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("domain: ROOT/web\n", "domain: ROOT/web\n    role: Wizard\n", "6: accounts[0]: there is no role 'Wizard'"),
        ("{name: net, ", "{name: net, offering: Best, ", "there is no network offering 'Best'"),
        ("size: 2 GiB", "size: 2 GiB, os_type: Beos", "os_type: there is no OS type 'Beos'"),
        ("default: true, ", "", "network: must be given, as the file describes 0 default networks"),
        ("end: 10.1.0.20", "end: 10.1.0.11", "Network net has 2 free address(es), 3 are needed"),
        ("capacity: 100 GiB", "capacity: 2 GiB", "count: 2 of 3 VMs fit"),
    ],
)
def test_what_the_installation_does_not_have_is_refused(
    engine: Engine, cipher: Cipher, tmp_path: Path, old: str, new: str, rule: str
) -> None:
    """Roles, offerings, OS types, addresses and room that are not there are told with their place."""
    before = all_rows(engine)
    with pytest.raises(InvalidInventory) as refused:
        load_inventory(engine, cipher, write(tmp_path, changed(old, new)))
    assert rule in refused.value.problems[0]
    assert all_rows(engine) == before


def test_two_zones_share_owners_and_offerings(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A second zone's file may repeat domains, accounts, offerings and templates: each is there once."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    second = (
        TINY.replace("name: tiny", "name: second").replace("name: web", "name: www").replace("10.1.0", "10.2.0")
    )
    report = load_inventory(engine, cipher, write(tmp_path, second))
    assert report.added["zones"] == 1
    assert report.added["templates in the zone"] == 1
    assert not {"domains", "accounts", "users", "service offerings", "templates"} & set(report.added)
    assert value(engine, "SELECT count(*) FROM template_zones") == 2


def test_an_offering_for_one_zone_only_is_extended_by_the_next(
    engine: Engine, cipher: Cipher, tmp_path: Path
) -> None:
    """``zone_only`` in the files of two zones offers it in these two and no other."""
    only = changed("{name: Custom}", "{name: Custom, zone_only: true, domains: [ROOT/web]}")
    load_inventory(engine, cipher, write(tmp_path, only))
    second = (
        only.replace("name: tiny", "name: second").replace("name: web", "name: www").replace("10.1.0", "10.2.0")
    )
    load_inventory(engine, cipher, write(tmp_path, second))
    zones = [zone for (zone,) in rows(engine, "SELECT id FROM zones ORDER BY id")]
    domain = value(engine, "SELECT id FROM domains WHERE name = 'web'")
    assert rows(engine, "SELECT zone_ids, domain_ids FROM service_offerings WHERE name = 'Custom'") == [
        (zones, [domain])
    ]


def test_removed_things_are_not_mistaken_for_described_ones(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """An offering that was deleted is made anew, beside the removed row."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    with engine.begin() as connection:
        connection.execute(text("UPDATE service_offerings SET removed = now() WHERE name = 'Custom'"))
    report = load_inventory(engine, cipher, write(tmp_path, TINY))
    assert dict(report.added) == {"service offerings": 1}
