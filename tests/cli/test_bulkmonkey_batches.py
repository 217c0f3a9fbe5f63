"""``bulkmonkey batch-create``: unlike VMs of a file, ours or Ganeti's, on the real service."""

import json
from pathlib import Path

import pytest

from bulkdeploy.cli.batches.batch_files import read_batch
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.cli.conftest import Monkey
from tests.support.zones.fleet import Fleet

YAML = """
zone: small
virtualmachines:
  - {name: web-1, serviceoffering: Small, template: Debian 12}
  - {name: db-1, serviceoffering: Custom, template: Debian 12, rootdisksize: 5,
     details: {cpuNumber: 4, memory: 4096}}
  - {nameprefix: worker, count: 3, serviceoffering: Small, template: Debian 12}
"""
GANETI = [
    {
        "instance_name": f"db{number}.example.org",
        "mode": "create",
        "os_type": "Debian 12",
        "disk_template": "plain",
        "beparams": {"maxmem": memory, "minmem": 128, "vcpus": number},
        "disks": [{"size": "3g"}, {"size": 5120}],
        "nics": [{"ip": None, "mac": "auto"}],
    }
    for number, memory in ((1, 512), (2, "1g"))
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of ours."""
    path = tmp_path / "vms.yaml"
    path.write_text(YAML)
    return path


@pytest.mark.usefixtures("worker")
def test_a_file_from_plan_to_running_vms(admin_monkey: Monkey, fleet: Fleet, file: Path) -> None:
    """Names are looked up, the plan says hosts, all jobs are followed, and a table says where each VM is."""
    plan = admin_monkey("batch-create", str(file), "--dry-run", "-o", "table")
    assert (plan.status, "All 5 VMs fit" in plan.out, "Nothing was deployed" in plan.out) == (0, True, True)
    assert fleet.zone.scalar("SELECT count(*) FROM virtual_machines") == 0
    done = admin_monkey("batch-create", str(file), "-o", "table")
    assert done.status == 0
    assert "5 of 5 jobs succeeded" in done.out
    rows = fleet.zone.rows("SELECT v.name, h.name AS host FROM virtual_machines v JOIN hosts h ON h.id = v.host_id")
    assert {row.name for row in rows} == {"web-1", "db-1", "worker-1", "worker-2", "worker-3"}
    lines = [line.replace("|", " ").split() for line in done.out.splitlines()]
    assert all([row.name, row.host] in lines for row in rows)


@pytest.mark.usefixtures("worker")
def test_ganetis_files_are_taken(admin_monkey: Monkey, fleet: Fleet) -> None:
    """Sizes, disks and nics by Ganeti's names, from standard input; what nothing corresponds to is said."""
    words = ("batch-create", "-", "zone=small", "serviceoffering=Custom", "diskoffering=Custom")
    done = admin_monkey(*words, text=json.dumps(GANETI))
    assert done.status == 0
    assert "disk_template has no counterpart in bulkdeploy" in done.err
    rows = fleet.zone.rows(
        "SELECT v.name, v.cpu_number, v.memory_mib, (SELECT array_agg(x.size_bytes >> 30 ORDER BY x.device_id)"
        " FROM volumes x WHERE x.vm_id = v.id) AS disks FROM virtual_machines v ORDER BY v.id"
    )
    assert [tuple(row) for row in rows] == [("db1", 1, 512, [3, 5]), ("db2", 2, 1024, [3, 5])]


def test_parameters_of_ganetis_disks_and_nics_become_details(tmp_path: Path) -> None:
    """They reach the driver, which knows the names; none is dropped."""
    disks = [
        {"size": 1024, "vg": "fast", "access": "userspace"},
        {"size": 1024, "vg": "fast", "access": "userspace"},
    ]
    path = tmp_path / "vms.json"
    path.write_text(json.dumps([{**GANETI[0], "disks": disks, "nics": [{"mode": "routed", "link": "table7"}]}]))
    (entry,) = read_batch(str(path)).entries
    assert entry["details"] == {
        "cpuNumber": 1,
        "memory": 512,
        "disk.vg": "fast",
        "disk.access": "userspace",
        "nic.mode": "routed",
        "nic.link": "table7",
    }


def test_what_is_wrong_with_a_file_ends_with_status_2(admin_monkey: Monkey, fleet: Fleet, tmp_path: Path) -> None:
    """Entry and field are named, whoever finds it, and nothing is made."""
    usual = {"serviceoffering": "Small", "template": "Debian 12"}
    cases = (
        ("[", ("cannot read",)),
        ("a: b", ("must be a list of VMs",)),
        ("[1]", ("virtualmachines[0]", "object")),
        (json.dumps([usual, {**usual, "flavour": 1}]), ("virtualmachines[1].flavour",)),
        (json.dumps([{**usual, "template": "Nothing"}]), ("virtualmachines[0].templateid", "Nothing")),
        (json.dumps([usual, {**usual, "name": "-"}]), ("virtualmachines[1].name", "hyphen")),
        (
            json.dumps([{**GANETI[0], "beparams": {"vcpus": 1, "maxmem": "much"}}]),
            ("virtualmachines[0].beparams.maxmem",),
        ),
        (json.dumps([{**GANETI[0], "nics": [{"bridge": "br0"}]}]), ("virtualmachines[0].nics[0].bridge",)),
        (json.dumps([{**GANETI[0], "disks": [{"size": 1, "adopt": "x"}]}]), ("virtualmachines[0].disks[0].adopt",)),
        (
            json.dumps([{**GANETI[0], "disks": [{"size": 1, "vg": "fast"}, {"size": 1}]}]),
            ("virtualmachines[0].disks[1].vg", "the same for all disks"),
        ),
        (json.dumps([GANETI[0]]), ("virtualmachines[0].disks[1]", "disk offering")),
    )
    for number, (content, words) in enumerate(cases):
        path = tmp_path / f"{number}.yaml"
        path.write_text(content)
        ended = admin_monkey("batch-create", str(path), "zone=small", "serviceoffering=Custom")
        assert ended.status == 2, (content, ended.err)
        for word in words:
            assert word in ended.err, (content, ended.err)
    assert admin_monkey("batch-create", str(tmp_path / "none.yaml")).status == 2
    assert fleet.zone.scalar("SELECT count(*) FROM virtual_machines") == 0


def test_what_does_not_fit_is_refused_or_left_out(admin_monkey: Monkey, fleet: Fleet, file: Path) -> None:
    """Status 1 and nothing made; with --partial the others, and why each was left out. --no-wait does not wait."""
    fleet.zone.change("UPDATE host_capacity SET memory_mib_limit = 2048")
    refused = admin_monkey("batch-create", str(file))
    assert (refused.status, "2048 MiB of memory" in refused.err) == (1, True)
    assert fleet.zone.scalar("SELECT count(*) FROM virtual_machines") == 0
    alike = file.read_text().replace("name: db-1", "nameprefix: db, count: 7")
    file.with_name("alike.yaml").write_text(alike)
    plan = admin_monkey("batch-create", str(file.with_name("alike.yaml")), "--partial", "--dry-run", "-o", "table")
    assert plan.out.count("7 VMs") == 1
    part = admin_monkey("batch-create", str(file), "--partial", "--no-wait", "-o", "table")
    assert (part.status, "db-1" in part.out, "Left out" in part.out) == (0, True, True)
    assert fleet.zone.scalar("SELECT count(*) FROM virtual_machines") == 4
    assert admin_monkey("batch-create", str(file), "--partial", "--timeout", "0.01", "nameprefix=x").status in (
        2,
        4,
    )


@pytest.mark.usefixtures("worker")
def test_a_vm_that_does_not_start_ends_with_status_3(admin_monkey: Monkey, fleet: Fleet, file: Path) -> None:
    """The table names every VM, and no host for those that are on none."""
    fleet.fault(Step.BOOT, FaultKind.PERMANENT)
    ended = admin_monkey("batch-create", str(file), "cluster=a-1", "-o", "table")
    assert (ended.status, "5 of 5 jobs failed" in ended.err) == (3, True)
    _, _, places = ended.out.partition("Where the VMs are")
    assert ("worker-3" in places, "a-1-" in places) == (True, False)


def test_jobs_that_take_too_long_end_with_status_4(admin_monkey: Monkey, fleet: Fleet, file: Path) -> None:
    """Without a worker no job ends; they go on without bulkmonkey."""
    assert admin_monkey("batch-create", str(file), "--timeout", "0.01").status == 4
    assert fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE status = 0") == 5
