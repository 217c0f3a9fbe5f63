"""Bulkmonkey and the real service together: API, database, message broker, worker, simulated hypervisors."""

import csv
import io
import json

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.cli.conftest import Monkey
from tests.support.zones.fleet import Fleet

BULK = ("bulkdeploy", "virtualmachine", "zone=small", "serviceoffering=Small", "template=Debian 12")
CLUSTERS = 4


@pytest.mark.usefixtures("worker")
def test_a_batch_from_plan_to_end(admin_monkey: Monkey, fleet: Fleet) -> None:
    """With names only: plan 21 VMs, deploy them, see all run, spread evenly, and explain where they are."""
    plan = json.loads(admin_monkey(*BULK, "virtualmachinecount=21", "dryrun=true").out)["plan"]
    assert (plan["count"], plan["fits"]) == (21, 21)
    assert len(plan["clusters"]) == CLUSTERS
    done = admin_monkey(*BULK, "virtualmachinecount=21", "-o", "table")
    assert done.status == 0
    assert "21 of 21 jobs succeeded" in done.out
    assert "skew 1" in done.out
    vms = json.loads(admin_monkey("list", "virtualmachines", "filter=state").out)["virtualmachine"]
    assert vms == [{"state": "Running"}] * 21
    (deployment,) = fleet.zone.rows("SELECT uuid FROM deployments")
    rows = list(csv.DictReader(io.StringIO(admin_monkey("explain", str(deployment.uuid), "-o", "csv").out)))
    placed = [row["clustername"] for row in rows]
    assert sorted(placed.count(name) for name in set(placed)) == [5, 5, 5, 6]
    assert admin_monkey("follow", str(deployment.uuid), "-q").status == 0


@pytest.mark.usefixtures("worker")
def test_explain_says_why_not_a_host(admin_monkey: Monkey, fleet: Fleet) -> None:
    """``explain DEPLOYMENT host=NAME`` has the rule, its meaning and its remedy from the API, host by host."""
    admin_monkey(*BULK, "virtualmachinecount=2", "pod=pod-a")
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name = 'a-1-1'")
    (deployment,) = fleet.zone.rows("SELECT uuid FROM deployments")
    table = admin_monkey("explain", str(deployment.uuid), "host=a-1-1,a-2-1,b-1-1", "-o", "csv")
    assert table.status == 0
    for text in (
        "the host is disabled or in maintenance",
        "enable it, or end its maintenance",
        "outside the requested zone",
    ):
        assert text in table.out
    (job,) = [row.uuid for row in fleet.zone.rows("SELECT uuid FROM async_jobs ORDER BY id LIMIT 1")]
    rows = json.loads(admin_monkey("explain", str(job), "hosts=a-1-1,a-2-1").out)["host"]
    assert [(row["hostname"], row.get("reason"), row["capacity"] > 0) for row in rows] == [
        ("a-1-1", "host_not_enabled", False),
        ("a-2-1", None, True),
    ]
    assert admin_monkey("explain", str(deployment.uuid), "host=nowhere").status == 2
    plan = admin_monkey(*BULK, "virtualmachinecount=2", "dryrun=true", "hosts=a-1-1", "-o", "table").out
    assert "Placed by UserDispersingPlanner" in plan
    assert "a-1-1" in plan


@pytest.mark.long
@pytest.mark.usefixtures("worker")
def test_a_zone_is_balanced_once_it_is_confirmed(admin_monkey: Monkey, fleet: Fleet) -> None:
    """``balance zone=NAME`` shows scores and moves and does nothing; with ``yes`` it waits until all are made."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name <> 'a-1-1'")
    admin_monkey(*BULK, "virtualmachinecount=3")
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    shown = admin_monkey("balance", "zone=small", "-o", "table")
    assert shown.status == 0
    for text in ("before", "after", "a-1-1", "2 moves in 2 sets", "Nothing was moved"):
        assert text in shown.out + shown.err
    rows = list(csv.DictReader(io.StringIO(admin_monkey("balance", "zone=small", "dryrun=true", "-o", "csv").out)))
    assert [row["fromhostname"] for row in rows] == ["a-1-1"] * 2
    assert fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE kind = 'balance_zone'") == 0
    assert admin_monkey("balance", "zone=small", "yes").status == 0
    assert fleet.zone.scalar("SELECT count(DISTINCT host_id) FROM virtual_machines") == 3
    assert admin_monkey("balance", "mingain=1").status == 1
    shown = admin_monkey("migrate", "host", "id=a-1-1", "dryrun=true", "-o", "table")
    for text in ("All 1 find a host", "-1", "+1", "planindex="):
        assert text in shown.out
    plan = json.loads(admin_monkey("migrate", "host", "id=a-1-1", "dryrun=true", "-o", "json").out)["plan"]
    assert [row["fromhostname"] for row in plan["move"]] == ["a-1-1"]
    fleet.assert_intact()


@pytest.mark.long
def test_capacity_is_told_to_people_and_to_programs(admin_monkey: Monkey, fleet: Fleet) -> None:
    """``capacity`` says how many fit, what ends it and where they go; for programs in hspace's keys."""
    fleet.zone.change("UPDATE host_capacity SET memory_mib_limit = 1024")
    fleet.zone.change("INSERT INTO configuration_values VALUES ('Global', 0, 'cluster.threshold.enabled', 'false')")
    shown = admin_monkey("capacity", *BULK[2:], "-o", "table")
    for text in ("24 more VMs fit", "too little memory", "+2", "a-1-1", "12288 of 12288"):
        assert text in shown.out
    rows = list(csv.DictReader(io.StringIO(admin_monkey("capacity", *BULK[2:], "-o", "csv").out)))
    assert sum(int(row["count"]) for row in rows) == 24
    custom = [word for word in BULK[2:] if not word.startswith("serviceoffering")]
    custom += ["serviceoffering=Custom", "details[0].cpuNumber=1", "details[0].memory=768", "tiered=true"]
    lines = admin_monkey("capacity", *custom, "--machine-readable").out.splitlines()
    keys = dict(line.removeprefix("HTS_").split("=", 1) for line in lines)
    assert (keys["ALLOC_INSTANCES"], keys["ALLOC_FAIL_REASON"], keys["FIN_MEM_FREE"]) == ("12", "FAILMEM", "3072")
    assert (keys["TRL_INST_CNT"], keys["TSPEC"]) == ("24", "'768,2048,1,1=12 256,2048,1,1=12'")
    assert lines[-1] == "HTS_OK=1"


@pytest.mark.long
@pytest.mark.usefixtures("worker")
def test_a_single_vm_and_its_failed_start_are_explained(admin_monkey: Monkey, fleet: Fleet) -> None:
    """Of a VM that was deployed alone too: why not on a host, and why on no host at all."""
    admin_monkey("deploy", "virtualmachine", *BULK[2:], "name=web-1")
    (vm,) = fleet.zone.rows("SELECT h.name, h.cluster_id FROM virtual_machines v JOIN hosts h ON h.id = v.host_id")
    fleet.zone.change("UPDATE hosts SET state = 'Down' WHERE name <> :name", name=vm.name)
    query = "SELECT name FROM hosts WHERE cluster_id = :cluster AND name <> :name ORDER BY id LIMIT 1"
    other = fleet.zone.scalar(query, cluster=vm.cluster_id, name=vm.name)
    (job,) = [row.uuid for row in fleet.zone.rows("SELECT uuid FROM async_jobs ORDER BY id LIMIT 1")]
    rows = json.loads(admin_monkey("explain", str(job), f"host={other}").out)["host"]
    assert [(row["hostname"], row["reason"], row["text"]) for row in rows] == [
        (other, "host_not_up", "the host is not Up")
    ]
    vm_id = fleet.vms()[0].uuid
    for word in ("web-1", str(vm_id)):
        explained = json.loads(admin_monkey("explain", word).out)["job"]
        assert (explained["jobid"], explained["hostname"]) == (str(job), vm.name)
        assert json.loads(admin_monkey("explain", word, f"host={other}").out)["host"] == rows
    assert admin_monkey("follow", "web-1").status == 0
    admin_monkey("stop", "virtualmachine", "id=web-1")
    fleet.zone.change("UPDATE hosts SET state = 'Down'")
    failed = admin_monkey("start", "virtualmachine", "id=web-1")
    assert failed.status == 3
    assert "host(s): the host is not Up (check the host's state and its agent)" in failed.err


@pytest.mark.long
@pytest.mark.usefixtures("worker")
def test_failed_jobs_are_reported_and_explained(admin_monkey: Monkey, fleet: Fleet) -> None:
    """Where a pinned cluster's hypervisors fail, the status is 3, and ``explain`` has the driver's reason."""
    fleet.fault(Step.BOOT, FaultKind.PERMANENT)
    (cluster, *_) = json.loads(admin_monkey("list", "clusters", "filter=id").out)["cluster"]
    done = admin_monkey(*BULK, "virtualmachinecount=4", f"cluster={cluster['id']}")
    assert done.status == 3
    jobs = json.loads(done.out)["asyncjobs"]
    assert {job["jobstatus"] for job in jobs} == {2}
    assert "4 of 4 jobs failed" in done.err
    explained = admin_monkey("explain", jobs[0]["jobid"], "-o", "table")
    assert explained.status == 0
    assert f"Why: {jobs[0]['errortext']}" in " ".join(explained.out.split())


@pytest.mark.usefixtures("worker")
def test_one_vm_is_deployed_stopped_and_destroyed_by_name(admin_monkey: Monkey, fleet: Fleet) -> None:
    """Single asynchronous calls are waited for, and a VM's name stands for its id."""
    deployed = admin_monkey("deploy", "virtualmachine", *BULK[2:], "name=web-1", "filter=name,state")
    assert json.loads(deployed.out) == {"virtualmachine": {"name": "web-1", "state": "Running"}}
    stopped = admin_monkey("stop", "virtualmachine", "id=web-1", "filter=state")
    assert json.loads(stopped.out) == {"virtualmachine": {"state": "Stopped"}}
    assert admin_monkey("destroy", "virtualmachine", "id=web-1", "expunge=true").status == 0
    fleet.assert_nothing_held()


@pytest.mark.long
def test_a_repeated_call_deploys_once(admin_monkey: Monkey, fleet: Fleet) -> None:
    """A bulk call carries a request token: the same token again answers the same jobs."""
    call = (*BULK, "virtualmachinecount=3", "--no-wait")
    admin_monkey(*call, "requesttoken=mine")
    admin_monkey(*call, "requesttoken=mine")
    assert len(fleet.vms()) == 3
    admin_monkey(*call)
    tokens = [row.request_token for row in fleet.zone.rows("SELECT request_token FROM deployments ORDER BY id")]
    assert tokens[0] == "mine"
    assert len(tokens) == 2
    assert tokens[1] is not None


def test_refusals_of_the_service_are_one_line(admin_monkey: Monkey) -> None:
    """What the service refuses ends with status 1, its text and codes; what does not fit says why."""
    refused = admin_monkey(*BULK, "virtualmachinecount=50000")
    assert refused.status == 1
    assert refused.err.strip().splitlines()[-1].startswith("Error: ")
    assert "(bulkDeployVirtualMachine: HTTP 5" in refused.err
    assert "dryrun=true" in refused.err


@pytest.mark.long
def test_every_api_has_help(admin_monkey: Monkey) -> None:
    """Every API that the service lists can be asked for help, under its own name."""
    apis = json.loads(admin_monkey("list", "apis", "filter=name").out)["api"]
    script = "\n".join(f"{api['name']} -h" for api in apis)
    done = admin_monkey(text=script)
    assert done.status == 0
    assert done.out.count("bulkmonkey ") >= len(apis)
