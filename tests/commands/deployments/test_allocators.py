"""Programs in the form of Ganeti's allocators choose hosts; no answer of theirs can do more than be refused."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.manage.main import main
from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.commands.deployments.test_plans import where
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.hypervisors.allocators import HAIL, OURS, Allocators, needs_hail
from tests.support.zones.zone_queries import Zone

Bulk = Callable[..., dict[str, Any]]

FIRST_USABLE = """
import json, sys
document = json.load(open(sys.argv[1]))
usable = sorted(name for name, node in document["nodes"].items() if not (node["drained"] or node["offline"]))
names = [one["name"] for one in document["request"]["instances"]]
placed = [[name, [usable[0]]] for name in names]
answer = {"success": True, "info": "", "result": [placed, []]}
"""
"""Puts all VMs on the first host by name that takes any."""

SAY = "\nprint(json.dumps(answer))\n"


@pytest.fixture
def allocators(tmp_path: Path, client: ApiClient, engine: Engine) -> Allocators:
    """None yet."""
    return Allocators.of(engine, tmp_path / "allocators", client)


def deployment(client: ApiClient) -> dict[str, Any]:
    """The latest."""
    found = client.call("listBulkDeployments", listall="true")["bulkdeployment"]
    return dict(found[0])


def test_a_program_chooses_the_hosts(bulk: Bulk, allocators: Allocators, client: ApiClient, zone: Zone) -> None:
    """Dry runs and deployments say who it was; VMs go where it says, by all rules and accounts."""
    allocators.add("first", FIRST_USABLE + SAY)
    allocators.use("first,builtin")
    plan = bulk(count=3, dryrun="true")["plan"]
    assert (plan["allocator"], [row["count"] for row in plan["placedhosts"]]) == ("first", [3])
    bulk(count=3)
    assert where(zone) == {plan["placedhosts"][0]["hostid"]: 3}
    assert deployment(client)["allocator"] == "first"
    assert_intact(zone.engine)


def test_a_plan_that_a_program_made_is_applied_without_it(
    bulk: Bulk, allocators: Allocators, client: ApiClient
) -> None:
    """It need not be there any more, and is named all the same."""
    allocators.add("first", FIRST_USABLE + SAY)
    allocators.use("first")
    plan = bulk(count=2, dryrun="true")["plan"]
    allocators.add("first", "raise SystemExit(9)")
    bulk(count=2, planindex=plan["index"])
    assert deployment(client)["allocator"] == "first"


def test_our_own_allocator_reads_what_we_export(bulk: Bulk, allocators: Allocators, zone: Zone) -> None:
    """The planner as a program of Ganeti's spreads VMs evenly over the zone that it is told of."""
    allocators.link("ours", OURS)
    allocators.use("ours")
    bulk(count=8)
    hosts = where(zone)
    assert sum(hosts.values()) == 8
    assert max(hosts.values()) - min(hosts.values()) <= 1
    assert_intact(zone.engine)


@needs_hail
def test_hail_places_a_bulk_call(bulk: Bulk, allocators: Allocators, client: ApiClient, zone: Zone) -> None:
    """Ganeti's own allocator, with what others hold, rooms that are full and VMs that must be apart."""
    allocators.link("hail", HAIL)
    allocators.use("hail")
    bulk(count=6)
    assert sum(where(zone).values()) == 6
    assert deployment(client)["allocator"] == "hail"
    hosts = zone.scalar("SELECT count(*) FROM hosts WHERE removed IS NULL")
    zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE id = (SELECT min(id) FROM hosts)")
    apart = zone.id_of("affinity_groups", "apart")
    jobs = bulk(count=hosts - 1, affinitygroupids=apart)["asyncjobs"]
    rows = zone.rows(
        "SELECT host_id FROM virtual_machines WHERE CAST(uuid AS text) = ANY(:vms)",
        vms=[job["jobinstanceid"] for job in jobs],
    )
    assert len({row.host_id for row in rows}) == hosts - 1
    with pytest.raises(ApiFailure, match="Allocator hail: "):
        bulk(count=2, affinitygroupids=apart)
    assert_intact(zone.engine)


def test_the_next_one_is_asked_where_one_refuses(
    bulk: Bulk, allocators: Allocators, client: ApiClient, zone: Zone
) -> None:
    """In the order of the setting; after the last one the call is refused, with what each has said."""
    allocators.add("full", 'print(\'{"success": false, "info": "no room, really", "result": []}\')')
    allocators.use("full,missing,builtin")
    bulk(count=2)
    assert deployment(client)["allocator"] == "builtin"
    allocators.use("full,missing")
    with pytest.raises(ApiFailure) as refused:
        bulk(count=2)
    assert refused.value.status == 533
    assert "Allocator full: no room, really" in str(refused.value)
    assert "Allocator missing: allocator_directory has no program missing" in str(refused.value)
    assert sum(where(zone).values()) == 2


WRONG = {
    "not JSON": ('print("hello")', "output is not an answer: hello"),
    "nothing": ("", "output is not an answer"),
    "a list": ("print([])", "output is not an answer"),
    "exit code": ('import sys; sys.stderr.write("broken"); sys.exit(3)', "exit code 3: broken"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
    "too few": (f"{FIRST_USABLE}placed.pop(){SAY}", "has 3 instances, not exactly the 4"),
    "one twice": (f"{FIRST_USABLE}placed[1] = placed[0]{SAY}", "has 3 instances, not exactly the 4"),
    "others": (f"{FIRST_USABLE}placed[0][0] = 'vm'{SAY}", "has 4 instances, not exactly the 4"),
    "no such host": (f"{FIRST_USABLE}placed[0][1] = ['nowhere']{SAY}", "has nowhere, which is not a host"),
    "two nodes": (f"{FIRST_USABLE}placed[0][1] *= 2{SAY}", "must name one node"),
    "in part": (f"{FIRST_USABLE}answer['result'][1] = [names[0]]{SAY}", "reports 1 of 4 instances as failed"),
    "another form": (f"{FIRST_USABLE}answer['result'] = placed{SAY}", "not an answer to a bulk request"),
    "deep": ('print("[" * 100000)', "output is not an answer"),
    "too long": ("import time; time.sleep(600)", "it took too long, and was killed"),
}


@pytest.mark.long
def test_what_is_no_answer_places_nothing(
    bulk: Bulk, allocators: Allocators, client: ApiClient, engine: Engine
) -> None:
    """Whatever a program does, the call is refused with the reason, and nothing is written."""
    unchanged = TableChanges(engine)
    for case, (code, reason) in WRONG.items():
        allocators.add("wrong", code)
        allocators.use("wrong")
        if case == "too long":
            client.call("updateConfiguration", name="placement.allocators.timeout", value="1")
        unchanged.mark()
        with pytest.raises(ApiFailure) as refused:
            bulk(count=4)
        assert (case, refused.value.status) == (case, 533)
        assert "Allocator wrong: " in refused.value.errortext, case
        assert reason in refused.value.errortext, case
        assert unchanged(), case


OTHERS = """
import os, psycopg
log = os.path.join(os.path.dirname(sys.argv[0]), "asked")
times = int(open(log).read()) if os.path.exists(log) else 0
open(log, "w").write(str(times + 1))
with psycopg.connect({url!r}, autocommit=True) as connection:
    {change}
"""
FILLS = """if times < {most}:
        connection.execute("UPDATE host_capacity SET vms_limit = vms_used WHERE host_id ="
                           " (SELECT id FROM hosts WHERE name = %s)", (usable[0],))"""


def times_run(allocators: Allocators) -> int:
    """How often the program was run."""
    return int((allocators.directory / "asked").read_text())


def test_an_answer_that_no_longer_stands_is_asked_for_once_more(
    bulk: Bulk, allocators: Allocators, database_url: str, zone: Zone
) -> None:
    """The host that was chosen is full by the time of the claim: nothing goes there, and the next answer holds."""
    change = OTHERS.format(url=database_url, change=FILLS.format(most=1))
    allocators.add("first", FIRST_USABLE + change + SAY)
    allocators.use("first")
    bulk(count=2)
    assert times_run(allocators) == 2
    full = zone.rows("SELECT uuid FROM hosts h JOIN host_capacity c ON c.host_id = h.id WHERE vms_limit = vms_used")
    assert list(where(zone).values()) == [2]
    assert not {str(row.uuid) for row in full} & set(where(zone))
    assert_intact(zone.engine)


def test_answers_that_never_stand_are_given_up(
    bulk: Bulk, allocators: Allocators, database_url: str, client: ApiClient
) -> None:
    """Asked twice and no more; then the next one is asked."""
    change = OTHERS.format(url=database_url, change=FILLS.format(most=9))
    allocators.add("first", FIRST_USABLE + change + SAY)
    allocators.use("first")
    with pytest.raises(ApiFailure, match="Allocator first: hosts that it chose did not take their VMs, twice"):
        bulk(count=2)
    assert times_run(allocators) == 2
    allocators.use("first,builtin")
    bulk(count=2)
    assert deployment(client)["allocator"] == "builtin"


OPEN = """open(log, "a").write(" " + str(connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend' AND xact_start IS NOT NULL").fetchone()[0]))"""


def test_no_transaction_is_open_while_a_program_thinks(
    bulk: Bulk, allocators: Allocators, database_url: str
) -> None:
    """However long it takes, nobody waits for a lock of the call's."""
    allocators.add("first", FIRST_USABLE + OTHERS.format(url=database_url, change=OPEN) + SAY)
    allocators.use("first")
    bulk(count=2)
    assert (allocators.directory / "asked").read_text() == "1 0"


def test_nothing_is_asked_about_vms_that_are_not_placed(bulk: Bulk, allocators: Allocators) -> None:
    """A dry run of VMs that are made Stopped shows the zone as it is, without waiting for a program."""
    allocators.add("asked", "open(__file__ + '.run', 'w')")
    allocators.use("asked")
    bulk(count=2, dryrun="true", startvm="false")
    assert not (allocators.directory / "asked.run").exists()


def test_the_directory_may_be_relative(
    bulk: Bulk, client: ApiClient, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the directory that the service was started in, as all its settings; programs run in another."""
    monkeypatch.chdir(tmp_path)
    allocators = Allocators.of(engine, Path("allocators"), client)
    allocators.add("first", FIRST_USABLE + SAY)
    allocators.use("first")
    bulk(count=2)
    assert deployment(client)["allocator"] == "first"


def test_only_names_of_programs_are_set(client: ApiClient) -> None:
    """No path and no argument: what may be run is what stands in the directory."""
    for names in ("", "../hail", "/bin/sh", "hail,hail", "hail, builtin", "-x", "a b", "hail,"):
        with pytest.raises(ApiFailure, match="builtin and names of programs") as refused:
            client.call("updateConfiguration", name="placement.allocators.allocate", value=names)
        assert refused.value.status == 431


def test_a_list_of_unlike_vms_is_chosen_kind_by_kind(allocators: Allocators, client: ApiClient, zone: Zone) -> None:
    """Each kind on what those before it leave: what two kinds may not share they do not share."""
    allocators.link("ours", OURS)
    allocators.use("ours")
    usual = zone.bulk_parameters(1, virtualmachinecount=None)
    shared = {name: usual.pop(name) for name in ("zoneid", "account", "domainid")}
    custom = {**usual, "serviceofferingid": zone.id_of("service_offerings", "Custom")}
    large = {**custom, "details": {"cpuNumber": 4, "memory": 4096}}
    entries = json.dumps([{**usual, "count": 3}, {**large, "count": 3}])
    made = client.post("bulkCreateVirtualMachines", **shared, virtualmachines=entries).body
    assert made["count"] == 6
    assert sum(where(zone).values()) == 6
    assert deployment(client)["allocator"] == "ours"
    assert_intact(zone.engine)


def test_a_zone_is_exported(bulk: Bulk, zone: Zone, database_url: str, tmp_path: Path) -> None:
    """Hosts, clusters and claims, in the ledger's arithmetic: a program that reads it can answer for us."""
    from click.testing import CliRunner

    bulk(count=3)
    environment = {"BULKDEPLOY_DATABASE_URL": database_url, "BULKDEPLOY_DATA_DIR": str(tmp_path)}
    done = CliRunner().invoke(main, ["iallocator", "export", "small"], env=environment, catch_exceptions=False)
    document = json.loads(done.stdout)
    rows = zone.rows("SELECT h.name, c.* FROM hosts h JOIN host_capacity c ON c.host_id = h.id")
    assert document["nodes"].keys() == {row.name for row in rows}
    for row in rows:
        node = document["nodes"][row.name]
        assert node["total_cpus"] == row.cpu_mhz_limit
        assert node["free_memory"] - 1 == row.memory_mib_limit - row.memory_mib_used
    used = Counter(
        {name: sum(one["memory"] for one in document["instances"].values() if one["nodes"] == [name])
         for name in document["nodes"]}
    )  # fmt: skip
    assert used == {row.name: row.memory_mib_used for row in rows}
    unknown = CliRunner().invoke(main, ["iallocator", "export", "nowhere"], env=environment)
    assert (unknown.exit_code, "there is no zone 'nowhere'" in unknown.output) == (2, True)
