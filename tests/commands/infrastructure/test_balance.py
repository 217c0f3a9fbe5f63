"""balanceZone, from the call to the zone in balance, whatever happens meanwhile."""

from collections import Counter
from typing import Any

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, CUSTOMERS_ADMIN, refused
from tests.support.zones.fleet import Fleet

VMS, MOVES, EVEN = 6, 4, [2, 2, 2]
"""All on one host of three, which their volumes keep them to, and how they end."""


@pytest.fixture
def skewed(fleet: Fleet) -> Fleet:
    """VMS running VMs, all on one host; the others are empty."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name <> 'a-1-1'")
    fleet.deploy(VMS)
    fleet.run()
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    return fleet


def _zone(fleet: Fleet) -> dict[str, Any]:
    return {"zoneid": fleet.zone.id_of("zones", "small")}


def _finish(fleet: Fleet, client: ApiClient, job_id: str) -> dict[str, Any]:
    """Run until the job is over; it makes jobs for VMs on the way."""
    for _ in range(4 * VMS):
        fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
        fleet.run()
        job = client.call("queryAsyncJobResult", jobid=job_id)
        if job["jobstatus"] != 0:
            return job
    raise AssertionError("the zone's job does not end")


def _vms_by_host(fleet: Fleet) -> list[int]:
    """How many VMs each host that has any holds, descending."""
    return sorted(Counter(vm.host_id for vm in fleet.vms() if vm.host_id is not None).values(), reverse=True)


def test_a_dry_run_shows_moves_and_does_nothing(skewed: Fleet, client: ApiClient) -> None:
    """Score before and after with what it is made of, and each move with its set, by names and ids."""
    plan = client.call("balanceZone", **_zone(skewed), dryrun=True)["balanceplan"]
    assert plan["moves"] == len(plan["move"]) == MOVES
    assert plan["scorebefore"] > plan["scoreafter"] == pytest.approx(sum(plan["after"][0].values()))
    assert {move["fromhostname"] for move in plan["move"]} == {"a-1-1"}
    assert [move["set"] for move in plan["move"]] == list(range(1, MOVES + 1))
    assert {move["hostname"] for move in plan["move"]} == {"a-1-2", "a-1-3"}
    assert _vms_by_host(skewed) == [VMS]
    assert [job.kind for job in skewed.jobs() if job.status == 0] == []


def test_a_zone_is_balanced(skewed: Fleet, client: ApiClient) -> None:
    """Six VMs of one host end on three hosts; the result says so, and another call finds nothing to do."""
    planned = client.call("balanceZone", **_zone(skewed), dryrun=True)["balanceplan"]
    job = _finish(skewed, client, client.call("balanceZone", **_zone(skewed))["jobid"])
    assert (job["jobstatus"], job["jobinstancetype"]) == (1, "Zone")
    result = job["jobresult"]["balance"]
    assert (result["moves"], result["failed"], result["zoneid"]) == (MOVES, 0, _zone(skewed)["zoneid"])
    assert result["scorebefore"] == pytest.approx(planned["scorebefore"])
    assert result["scoreafter"] == pytest.approx(planned["scoreafter"])
    assert _vms_by_host(skewed) == EVEN
    assert client.call("balanceZone", **_zone(skewed), dryrun=True)["balanceplan"]["moves"] == 0
    events = client.call("listEvents", type="ZONE.BALANCE", listall=True)["event"]
    assert [event["state"] for event in events] == ["Completed", "Started", "Scheduled"]
    skewed.assert_intact()


def test_only_as_many_moves_and_only_there(skewed: Fleet, client: ApiClient) -> None:
    """Maxmoves ends it; within a cluster, VMs stay in the cluster; a mingain that nothing reaches leaves all."""
    cluster = {"clusterid": skewed.zone.id_of("clusters", "a-1")}
    idle = client.call("balanceZone", **cluster, dryrun=True, mingain="1000")["balanceplan"]
    assert (idle["moves"], idle["sets"]) == (0, 0)
    job = _finish(skewed, client, client.call("balanceZone", **cluster, maxmoves=1)["jobid"])
    assert job["jobresult"]["balance"]["moves"] == 1
    assert _vms_by_host(skewed)[0] == VMS - 1
    _finish(skewed, client, client.call("balanceZone", **cluster)["jobid"])
    assert _vms_by_host(skewed) == EVEN
    skewed.assert_intact()


def test_groups_stay_apart_and_together(fleet: Fleet, client: ApiClient) -> None:
    """VMs of a strict affinity group stay where they are, those of an anti-affinity group on hosts apart."""
    made = {}
    for kind in ("host anti-affinity", "host affinity"):
        answer = client.call("createAffinityGroup", name=kind.replace(" ", "-"), type=kind)
        job = client.call("queryAsyncJobResult", jobid=answer["jobid"])
        made[kind] = int(fleet.id_of("affinity_groups", job["jobresult"]["affinitygroup"]["name"]))
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name NOT LIKE 'a-1-%'")
    fleet.deploy(3, affinity_group_ids=(made["host anti-affinity"],))
    together = fleet.deploy(4, affinity_group_ids=(made["host affinity"],))
    fleet.deploy(3)
    fleet.run()
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    moved = client.call("balanceZone", **_zone(fleet), dryrun=True)["balanceplan"]["move"]
    assert not {move["virtualmachineid"] for move in moved} & set(map(str, together.vm_uuids))
    job = _finish(fleet, client, client.call("balanceZone", **_zone(fleet))["jobid"])
    assert job["jobresult"]["balance"]["failed"] == 0
    apart = "SELECT count(DISTINCT host_id) FROM virtual_machines v JOIN vm_affinity_groups g ON g.vm_id = v.id"
    counts = [fleet.zone.scalar(f"{apart} WHERE g.affinity_group_id = :id", id=group) for group in made.values()]
    assert counts == [3, 1]
    fleet.assert_intact()


def test_a_move_that_fails_leaves_its_vm_and_the_rest_goes_on(skewed: Fleet, client: ApiClient) -> None:
    """A hypervisor that refuses: the VM is where it was, is not tried again, and others move in its place."""
    skewed.fault(Step.MIGRATE, FaultKind.PERMANENT, remaining=1)
    job = _finish(skewed, client, client.call("balanceZone", **_zone(skewed))["jobid"])
    assert (job["jobstatus"], job["jobresult"]["balance"]["failed"]) == (1, 1)
    assert _vms_by_host(skewed) == EVEN
    skewed.assert_intact()


def test_it_plans_anew_when_the_world_moved(skewed: Fleet, client: ApiClient) -> None:
    """VMs that come and go, and hosts that are disabled, between two sets: the next set goes by what is there."""
    job_id = client.call("balanceZone", **_zone(skewed))["jobid"]
    for _ in range(3):
        skewed.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
        skewed.run()
    gone = next(vm for vm in skewed.vms() if vm.state == "Running")
    client.call("destroyVirtualMachine", id=str(gone.uuid), expunge=True)
    skewed.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name LIKE 'b-2-%'")
    skewed.deploy(2, cluster="a-2")
    job = _finish(skewed, client, job_id)
    assert job["jobstatus"] == 1
    left = client.call("balanceZone", **_zone(skewed), dryrun=True)["balanceplan"]
    assert left["moves"] == 0
    skewed.assert_intact()


def test_what_is_no_place_or_no_number_is_refused(fleet: Fleet, client: ApiClient) -> None:
    """Exactly one place; a mingain above 0; the caller must be a root admin."""
    both = {**_zone(fleet), "clusterid": fleet.zone.id_of("clusters", "a-1")}
    for wrong in ({}, both, {**_zone(fleet), "mingain": "0"}, {**_zone(fleet), "mingain": "-1"}):
        assert refused(client, "balanceZone", **wrong).status in (430, 431)
    assert fleet.jobs() == []


@pytest.mark.parametrize("keys", [ACME, CUSTOMERS_ADMIN])
def test_only_root_admins_balance(fleet: Fleet, api_url: str, keys: tuple[str, str]) -> None:
    """Where VMs are is the infrastructure's business."""
    assert refused(ApiClient(api_url, *keys), "balanceZone", **_zone(fleet)).status == 432
