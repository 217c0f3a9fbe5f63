"""How many more VMs fit, with and without the loss of a host: what the planner itself places, and not one more."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.placement.host_loss import HeldVms, host_not_to_lose
from bulkdeploy.placement.model import PlacementRequest
from bulkdeploy.placement.remaining_capacity import fill_up, smaller
from bulkdeploy.scheduling.catalog import placement_catalog
from tests.placement.zone_builder import Cluster, Host, Zone, affinities_after, per_host, plan, request
from tests.placement.zone_strategies import problems
from tests.support.properties import examples

CATALOG = placement_catalog()
NO_VMS = HeldVms((), *(np.zeros(0, dtype=np.int64),) * 3)


def hosts_of_hspace(count: int) -> Zone:
    """Empty hosts of 128 GiB, one of which is their own, and 32 cores at four to one, in one cluster."""
    empty = Host(0, 1, cores=32, cpu_limit=4 * 32 * 2000, memory_limit=127 * 1024, vms_limit=128)
    return Zone([Cluster(1)], [replace(empty, id=100 + number) for number in range(count)])


STANDARD = request(0, cpu_number=4, memory_mib=8192)


@pytest.mark.parametrize("hosts", [2, 10, 40])
def test_as_many_fit_as_hspace_says(hosts: int) -> None:
    """15 standard VMs a host; with room for the loss of one, those of one host fewer; tiered, four a host."""
    zone = hosts_of_hspace(hosts).snapshot()
    plain, kept = fill_up(zone, STANDARD, CATALOG), fill_up(zone, STANDARD, CATALOG, held=NO_VMS)
    assert (plain.plan.placed, plain.ended_by) == (hosts * 15, {"memory": hosts})
    assert (kept.plan.placed, kept.ended_by) == ((hosts - 1) * 15, {"n1": 1})
    first = fill_up(zone, replace(STANDARD, cpu_number=8, memory_mib=32 * 1024), CATALOG)
    wanted = smaller(first, CATALOG, least_cores=1, least_memory_mib=64)
    assert wanted is not None
    second = fill_up(first.left, wanted, CATALOG)
    assert (first.plan.placed, second.plan.placed, wanted.memory_mib) == (3 * hosts, hosts, 31 * 1024)
    assert smaller(second, CATALOG, least_cores=1, least_memory_mib=64) is None


@examples(60)
@given(problem=problems())
def test_exactly_so_many_are_placed(problem: tuple[Zone, PlacementRequest]) -> None:
    """That many are placed when so many are requested; of one more one is refused, and then none fits."""
    zone, wanted = problem
    snapshot = zone.snapshot()
    found = fill_up(snapshot, wanted, CATALOG)
    count = found.plan.placed
    assert plan(snapshot, replace(wanted, count=count)).refused == 0
    assert plan(snapshot, replace(wanted, count=count + 1)).refused == 1
    left = zone.after(wanted, found.plan).snapshot()
    following = replace(wanted, count=1, affinities=affinities_after(wanted, found.plan))
    assert plan(left, following).refused == 1
    assert found.ended_by


@examples(60)
@given(problem=problems(), most=st.integers(0, 5))
def test_no_more_than_are_wanted(problem: tuple[Zone, PlacementRequest], most: int) -> None:
    """With a bound that comes first, no rule is said to have ended it."""
    zone, wanted = problem
    found = fill_up(zone.snapshot(), wanted, CATALOG, most=most)
    assert found.plan.placed <= most
    assert bool(found.ended_by) == (found.plan.placed == plan(zone.snapshot(), wanted).capacity)


def _survives_all(zone: Zone, kinds: dict[int, list[PlacementRequest]]) -> bool:
    """Whether the VMs of each host, one by one and the largest first, fit on the others of its cluster."""
    for lost in zone.hosts:
        rest = Zone([zone.cluster(lost.cluster_id)], [each for each in zone.hosts if each is not lost])
        rest.hosts = [each for each in rest.hosts if each.cluster_id == lost.cluster_id]
        for vm in sorted(kinds[lost.id], key=lambda vm: -vm.memory_mib):
            made = plan(rest.snapshot(), replace(vm, count=1, host_algorithm="firstfit"))
            if made.refused:
                return False
            rest = rest.after(vm, made)
    return True


@examples(40)
@given(
    sizes=st.lists(st.lists(st.sampled_from([1024, 2048, 3072]), max_size=2), min_size=2, max_size=5),
    clusters=st.integers(1, 2),
    memory_mib=st.sampled_from([1024, 2048]),
)
def test_any_one_host_may_be_lost(sizes: list[list[int]], clusters: int, memory_mib: int) -> None:
    """After so many more VMs, whoever is lost, all its VMs fit elsewhere in its cluster; after one more, not."""
    zone = Zone([Cluster(number) for number in range(1, clusters + 1)], [])
    kinds: dict[int, list[PlacementRequest]] = {}
    for number, memory in enumerate(sizes, start=11):
        vms = [request(1, memory_mib=each) for each in memory]
        host = Host(number, number % clusters + 1, memory_limit=8192, memory_used=sum(memory))
        host.cpu_used, host.vms_used = 1000 * len(memory), len(memory)
        zone.hosts.append(host)
        kinds[number] = vms
    held = HeldVms(
        tuple(vm for vms in kinds.values() for vm in vms),
        np.array([host for host, each in kinds.items() for _ in each], dtype=np.int64),
        np.arange(sum(map(len, kinds.values())), dtype=np.int64),
        np.ones(sum(map(len, kinds.values())), dtype=np.int64),
    )
    wanted = request(0, memory_mib=memory_mib, host_algorithm="firstfit")
    found = fill_up(zone.snapshot(), wanted, CATALOG, held=held)
    count = found.plan.placed
    for host_id, more_vms in per_host(found.plan).items():
        kinds[host_id] += [replace(wanted, count=1)] * more_vms
    if count:
        assert _survives_all(zone.after(wanted, found.plan), kinds)
    more = replace(wanted, count=count + 1)
    made = plan(zone.snapshot(), more)
    after = zone.after(more, made).snapshot()
    assert made.refused or host_not_to_lose(after, held.plus(more, made), CATALOG) == found.lost_host_id
