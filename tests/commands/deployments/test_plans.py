"""Plans that are looked at and then applied: what was shown happens, to the host, or nothing does."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.zones.zone_queries import Zone

Bulk = Callable[..., dict[str, Any]]
CHANGES = {
    "memory of a host": "UPDATE host_capacity SET memory_mib_limit = memory_mib_used + 1 WHERE host_id = :host",
    "CPU of a host": "UPDATE host_capacity SET cpu_mhz_limit = cpu_mhz_used WHERE host_id = :host",
    "guests of a host": "UPDATE host_capacity SET vms_limit = vms_used WHERE host_id = :host",
    "a host that is down": "UPDATE hosts SET state = 'Down' WHERE id = :host",
    "a host in maintenance": "UPDATE hosts SET resource_state = 'Maintenance' WHERE id = :host",
    "a host that is gone": "UPDATE hosts SET removed = now() WHERE id = :host",
    "a cluster that is disabled": (
        "UPDATE clusters SET allocation_state = 'Disabled'"
        " WHERE id = (SELECT cluster_id FROM hosts WHERE id = :host)"
    ),
    "a pod that is disabled": (
        "UPDATE pods SET allocation_state = 'Disabled' WHERE id ="
        " (SELECT c.pod_id FROM hosts h JOIN clusters c ON c.id = h.cluster_id WHERE h.id = :host)"
    ),
    "a threshold": (
        "INSERT INTO configuration_values"
        " SELECT 'Global', 0, 'cluster.cpu.allocated.capacity.disablethreshold', '0.0001'"
        " WHERE CAST(:host AS bigint) > 0"
    ),
    "pools that are full": (
        "UPDATE storage_pools SET allocated_bytes = capacity_bytes * 9 WHERE CAST(:host AS bigint) > 0"
    ),
    "pools that are down": "UPDATE storage_pools SET state = 'Maintenance' WHERE CAST(:host AS bigint) > 0",
}
"""What can take a plan's room away, by one of the hosts that it uses."""

REASONS = {
    "guests of a host": "guest_limit",
    "a host that is down": "host_not_up",
    "a host in maintenance": "host_not_enabled",
    "a cluster that is disabled": "cluster_disabled",
}
"""The rules that are named then."""


def where(zone: Zone) -> Counter[str]:
    """VMs by the uuid of their host."""
    rows = zone.rows("SELECT h.uuid FROM virtual_machines v JOIN hosts h ON h.id = v.host_id")
    return Counter(str(row.uuid) for row in rows)


def shown(plan: dict[str, Any]) -> Counter[str]:
    """The same, as a plan shows it."""
    return Counter({row["hostid"]: row["count"] for row in plan["placedhosts"]})


def test_what_was_shown_is_what_happens(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """To the host and the pool, though room elsewhere has changed and a new plan would look otherwise."""
    plan = bulk(count=9, dryrun="true")["plan"]
    assert sum(shown(plan).values()) == 9
    used = set(shown(plan))
    zone.change("UPDATE host_capacity SET vms_limit = 999 WHERE vms_used = 0")
    zone.change(
        "UPDATE hosts SET resource_state = 'Disabled' WHERE NOT CAST(uuid AS text) = ANY(:used)", used=list(used)
    )
    jobs = bulk(count=9, planindex=plan["index"])["asyncjobs"]
    assert (len(jobs), where(zone)) == (9, shown(plan))
    pools = {
        row.uuid
        for row in zone.rows(
            "SELECT CAST(p.uuid AS text) AS uuid FROM volumes v JOIN storage_pools p ON p.id = v.pool_id"
        )
    }
    assert pools == {pool for row in plan["placedhosts"] for pool in row["pools"]}
    assert_intact(engine)


def test_nothing_is_reserved_in_between(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """A plan may be applied twice, as long as it fits, and keeps nobody else from the room."""
    plan = bulk(count=4, dryrun="true")["plan"]
    for _ in range(2):
        bulk(count=4, planindex=plan["index"])
    bulk(count=3)
    assert where(zone) >= shown(plan)
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 11
    assert_intact(engine)


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_whose_room_is_gone_is_refused(
    bulk: Bulk, zone: Zone, nothing_written: TableChanges, change: str
) -> None:
    """409, with what has less room than was planned; nothing is made, on no other host either."""
    plan = bulk(count=6, dryrun="true")["plan"]
    host = plan["placedhosts"][0]
    host_id = zone.scalar("SELECT id FROM hosts WHERE uuid = CAST(:uuid AS uuid)", uuid=host["hostid"])
    zone.change(CHANGES[change], host=host_id)
    nothing_written.mark()
    answer = refusal(bulk, count=6, planindex=plan["index"])
    assert answer["errorcode"] == 409
    assert f"Plan {plan['index']} is stale" in answer["errortext"]
    if "host" in change:
        assert host["hostname"] in answer["errortext"] or host["clustername"] in answer["errortext"]
    if change in REASONS:
        assert f"VMs planned there ({REASONS[change]}" in answer["errortext"]
    assert nothing_written()


def test_vms_of_others_make_a_plan_stale_where_they_take_its_room(bulk: Bulk, zone: Zone) -> None:
    """What was shown is not squeezed in beside what came first."""
    zone.change("UPDATE host_capacity SET vms_limit = 1")
    plan = bulk(count=8, dryrun="true")["plan"]
    bulk(count=5)
    assert refusal(bulk, count=8, planindex=plan["index"])["errorcode"] == 409
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 5


def test_a_plan_is_of_one_call_and_one_user(bulk: Bulk, zone: Zone) -> None:
    """Other parameters, another user or an unknown index are refused by name."""
    plan = bulk(count=2, dryrun="true")["plan"]
    for wrong in ({"count": 3}, {"count": 2, "rootdisksize": 7}):
        answer = refusal(bulk, **wrong, planindex=plan["index"])
        assert (answer["errorcode"], "other parameters" in answer["errortext"]) == (431, True)
    assert "no such plan" in refusal(bulk, count=2, planindex=plan["index"] + 1)["errortext"]
    zone.change("UPDATE deployment_plans SET user_id = user_id + 1")
    assert "no such plan" in refusal(bulk, count=2, planindex=plan["index"])["errortext"]
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 0


def test_lists_and_single_vms_have_plans_too(client: ApiClient, zone: Zone, engine: Engine) -> None:
    """Each entry goes to the host that the plan showed for it; and so does a single VM."""
    usual = zone.bulk_parameters(1)
    del usual["virtualmachinecount"]
    single = client.call("deployVirtualMachine", **usual, dryrun="true")["plan"]
    client.call("deployVirtualMachine", **usual, planindex=single["index"])
    assert where(zone) == shown(single)
    shared = {name: usual.pop(name) for name in ("zoneid", "account", "domainid")}
    custom = {**usual, "serviceofferingid": zone.id_of("service_offerings", "Custom")}
    entries = [
        {**custom, "name": f"vm-{at}", "details": {"cpuNumber": 1 + at % 3, "memory": 512}} for at in range(7)
    ]
    call = {**shared, "virtualmachines": json.dumps(entries)}
    plan = client.call("bulkCreateVirtualMachines", **call, dryrun="true")["plan"]
    made = client.call("bulkCreateVirtualMachines", **call, planindex=plan["index"])
    places = [(place["name"], place["hostid"], place["pools"]) for place in plan["placements"]]
    assert [(place["name"], place["hostid"], place["pools"]) for place in made["placements"]] == places
    assert_intact(engine)


def refusal(bulk: Bulk, **parameters: object) -> dict[str, Any]:
    """The body of a refused call."""
    with pytest.raises(ApiFailure) as refused:
        bulk(**parameters)
    return refused.value.answer.body
