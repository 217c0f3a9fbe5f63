"""calculateCapacity through the front door: just so many can be deployed, and not one more."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.zones.zone_queries import Zone

Bulk = Callable[..., dict[str, Any]]


NO_THRESHOLDS = "INSERT INTO configuration_values VALUES ('Global', 0, 'cluster.threshold.enabled', 'false')"


@pytest.fixture
def calculate(client: ApiClient, zone: Zone) -> Bulk:
    """Calls calculateCapacity for account acme; clusters may be filled to the brim."""
    zone.change(NO_THRESHOLDS)

    def call(**more: object) -> dict[str, Any]:
        parameters = zone.bulk_parameters(1, **more)
        del parameters["virtualmachinecount"]
        found: dict[str, Any] = client.call("calculateCapacity", **parameters)["remainingcapacity"]
        return found

    return call


MOSTLY_FULL = "UPDATE host_capacity SET memory_mib_limit = memory_mib_used + 1200"
"""Two more VMs of 512 MiB a host."""

ENDS = {
    "memory": MOSTLY_FULL,
    "cpu": "UPDATE host_capacity SET cpu_mhz_limit = cpu_mhz_used + 1100",
    "guest_limit": "UPDATE host_capacity SET vms_limit = vms_used + 1",
    "storage": "UPDATE storage_pools SET capacity_bytes = allocated_bytes + 3221225472",
    "resource_limit": "UPDATE resource_limits SET max = 7 WHERE resource_type = 0",
    "addresses": "UPDATE ip_ranges SET end_ip = next_ip + 4",
}
"""What ends it, and the change to the zone that makes it do so."""


@pytest.mark.parametrize("reason", ENDS)
def test_exactly_so_many_can_be_deployed(
    reason: str, calculate: Bulk, bulk: Bulk, client: ApiClient, zone: Zone, engine: Engine
) -> None:
    """Whatever ends it: one more is refused as a whole, so many are deployed, and then none is left to deploy."""
    zone.change(ENDS[reason])
    found = calculate()
    assert (found["reason"], sum(host["count"] for host in found["hosts"])) == (reason, found["count"])
    assert 0 < found["count"] < 40
    refused(client, "bulkDeployVirtualMachine", **zone.bulk_parameters(found["count"] + 1))
    assert bulk(count=found["count"])["count"] == found["count"]
    again = calculate()
    assert (again["count"], again["reason"]) == (0, reason)
    assert_intact(engine)


def test_it_says_where_and_claims_nothing(calculate: Bulk, zone: Zone, nothing_written: TableChanges) -> None:
    """Hosts in the order in which they get VMs, what ends it in words, and the zone before and after."""
    zone.change(MOSTLY_FULL)
    nothing_written.mark()
    found = calculate()
    assert (found["count"], len(found["hosts"]), {host["count"] for host in found["hosts"]}) == (24, 12, {2})
    clusters = Counter(host["clustername"] for host in found["hosts"][:4])
    assert set(clusters.values()) == {1}  # dispersed: the first four hosts are of four clusters
    assert "memory" in found["text"]
    assert found["remedy"]
    ((size,), (before,), (after,)) = found["sizes"], found["before"], found["after"]
    assert (size["cpunumber"], size["memory"], size["count"]) == (1, 512, 24)
    assert after["memoryused"] - before["memoryused"] == 24 * 512
    assert after["virtualmachines"] - before["virtualmachines"] == 24
    assert nothing_written()


def test_room_for_the_loss_of_a_host(calculate: Bulk, bulk: Bulk, zone: Zone) -> None:
    """With n1, clusters of three hosts keep a third of their room; VMs that are there count."""
    zone.change(MOSTLY_FULL)
    kept = calculate(n1="true")
    assert (kept["count"], kept["reason"]) == (16, "n1")
    assert kept["losthostname"] in {host["hostname"] for host in kept["hosts"]}
    bulk(count=16)
    again = calculate(n1="true")
    assert (again["count"], again["reason"], calculate()["count"]) == (0, "n1", 8)


def test_smaller_and_smaller_vms(calculate: Bulk, bulk: Bulk, client: ApiClient, zone: Zone) -> None:
    """Tiered goes on with sizes that fit, down to the offering's least; an offering of one size is refused."""
    zone.change("UPDATE host_capacity SET memory_mib_limit = memory_mib_used + 1700")
    parameters = zone.bulk_parameters(1, tiered="true")
    del parameters["virtualmachinecount"]
    assert "custom" in str(refused(client, "calculateCapacity", **parameters))
    custom = {
        "serviceofferingid": zone.id_of("service_offerings", "Custom"),
        "details[0].cpuNumber": 2,
        "details[0].memory": 1024,
    }
    found = calculate(tiered="true", **custom)
    assert [(size["memory"], size["count"]) for size in found["sizes"]] == [(1024, 12), (640, 12)]
    for size in found["sizes"]:
        assert bulk(**{**custom, "details[0].memory": size["memory"]}, count=size["count"])["count"] == 12
    assert calculate(tiered="true", **custom)["count"] == 0
