"""The plan as a whole: its edges, and its size."""

import numpy as np
import pytest

from bulkdeploy.placement.model import Plan
from bulkdeploy.scheduling.catalog import planners
from tests.placement.zone_builder import Cluster, Zone, even_zone, per_cluster, per_host, plan, request


@pytest.mark.parametrize("planner", planners())
@pytest.mark.parametrize("pods_first", [False, True])
@pytest.mark.parametrize("zone", [Zone([], []), Zone([Cluster(1)], [])], ids=["nothing", "no hosts"])
def test_an_empty_zone_refuses_everything(zone: Zone, planner: str, pods_first: bool) -> None:
    """Without hosts nothing is placed, and that is an answer, not an error."""
    made = plan(zone.snapshot(), request(5, planner=planner, pods_first=pods_first))
    assert (made.requested, made.placed, made.refused, made.capacity) == (5, 0, 5, 0)
    assert made.excluded == {}
    assert tuple(made.spread) == ()


def test_a_batch_of_none_is_placed() -> None:
    """Zero VMs: nothing placed, nothing refused, and the capacity is told."""
    made = plan(even_zone(2, 2).snapshot(), request(0))
    assert (made.placed, made.refused, made.capacity) == (0, 0, 16)


def test_the_snapshot_is_not_changed() -> None:
    """Planning reads the columns and leaves them as they were."""
    snapshot = even_zone(2, 2).snapshot()
    for columns in (snapshot.clusters, snapshot.hosts, snapshot.pools):
        for name in columns.__dataclass_fields__:
            column = getattr(columns, name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
    assert plan(snapshot, request(9)).placed == 9


def test_huge_rooms_and_counts_do_not_overflow() -> None:
    """Hosts of absurd size and VMs of almost none still add up."""
    zone = even_zone(clusters=3, hosts=3)
    for host in zone.hosts:
        host.cpu_limit = host.memory_limit = host.vms_limit = 1 << 50
    made = plan(zone.snapshot(), request(100_000, cpu_mhz=1, memory_mib=0))
    assert per_cluster(made) == {1: 33_334, 2: 33_333, 3: 33_333}


@pytest.mark.parametrize("planner", ["UserDispersingPlanner", "UserConcentratedPodPlanner"])
@pytest.mark.parametrize("pods_first", [False, True])
def test_a_large_batch_keeps_the_laws(planner: str, pods_first: bool) -> None:
    """Ten thousand VMs over a thousand hosts: all placed, none above its slots, in two halves as in one."""
    zone = wide_zone(clusters=40, hosts=25)
    requested = request(10_000, planner=planner, pods_first=pods_first)
    made = plan(zone.snapshot(), requested)
    assert made.placed == 10_000
    assert max(per_host(made).values()) <= 20
    half = request(5_000, planner=planner, pods_first=pods_first)
    first = plan(zone.snapshot(), half)
    second = plan(zone.after(half, first).snapshot(), half)
    assert totals(first, second) == totals(made)


def wide_zone(clusters: int, hosts: int) -> Zone:
    """Many clusters in four pods, unevenly filled; hosts with room for up to 20 VMs."""
    zone = even_zone(1, 1, slots=20)
    template = zone.hosts[0]
    zone.clusters = [
        Cluster(number, number % 4, owner_vms=number * 7 % 50, all_vms=number * 13 % 90 + 50)
        for number in range(1, clusters + 1)
    ]
    zone.hosts = [
        type(template)(
            number,
            number % clusters + 1,
            cpu_limit=20_000,
            memory_limit=20 * 1024,
            cpu_used=number * 31 % 8 * 1000,
        )
        for number in range(1, clusters * hosts + 1)
    ]
    return zone


def totals(*plans: Plan) -> dict[int, int]:
    """VMs per cluster over all the plans."""
    result: dict[int, int] = {}
    for made in plans:
        for cluster_id, vms in per_cluster(made).items():
            result[cluster_id] = result.get(cluster_id, 0) + vms
    return result
