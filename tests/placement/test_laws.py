"""What holds for every plan, checked against a one-VM-at-a-time oracle in plain Python."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.placement.affinity_members import needs_one_host
from bulkdeploy.placement.capacity import HostAnswers
from bulkdeploy.placement.model import PlacementRequest, Plan, Purpose
from bulkdeploy.placement.storage.pool_choice import emptiest_pool
from bulkdeploy.scheduling.catalog import placement_catalog
from tests.placement.oracle import place_one_by_one, serves
from tests.placement.zone_builder import Zone, affinities_after, per_cluster, per_host, plan
from tests.placement.zone_strategies import problems
from tests.support.runs.properties import examples

Problem = tuple[Zone, PlacementRequest]


@examples(250)
@given(problem=problems())
def test_clusters_get_what_placing_one_vm_at_a_time_gives_them(problem: Problem) -> None:
    """The whole-batch plan puts as many VMs into each cluster as one-by-one placing does, and refuses as many."""
    zone, request = problem
    answer = place_one_by_one(zone, request)
    made = plan(zone.snapshot(), request)
    assert per_cluster(made) == answer.per_cluster
    assert made.placed + made.refused == request.count
    assert made.placed == sum(answer.per_cluster.values())


@examples(150)
@given(problem=problems())
def test_every_reason_is_true_and_every_host_is_a_candidate_or_has_one(problem: Problem) -> None:
    """Excluded hosts are counted under the first rule that removes them, and under no other."""
    zone, request = problem
    answer = place_one_by_one(zone, request)
    assert plan(zone.snapshot(), request).excluded == dict(Counter(answer.reasons.values()))


@examples(150)
@given(problem=problems())
def test_what_limits_a_plan_is_true_and_complete(problem: Problem) -> None:
    """If VMs are refused, every host is counted under the first rule that keeps the next VM from it."""
    zone, request = problem
    groups = tuple(replace(group, group_id=number) for number, group in enumerate(request.affinities))
    request = replace(request, affinities=groups)
    made = plan(zone.snapshot(), request)
    if not made.refused:
        assert made.limiting == made.excluded
        return
    following = replace(request, affinities=affinities_after(request, made), count=0)
    left = zone.after(request, made)
    assert made.limiting == dict(Counter(place_one_by_one(left, following).reasons.values()))
    assert sum(made.limiting.values()) == len(zone.hosts)


@examples(100)
@given(problem=problems(without=frozenset({"affinity"})))
def test_what_grows_where_it_is_is_judged_by_its_sizes(problem: Problem) -> None:
    """A VM that grows needs what its sizes and tags need of its host, and nothing else is asked."""
    zone, request = problem
    request = replace(request, purpose=Purpose.GROW, disks=())
    answer = place_one_by_one(zone, replace(request, count=0))
    assert plan(zone.snapshot(), request).excluded == dict(Counter(answer.reasons.values()))


@examples(150)
@given(problem=problems())
def test_every_host_is_answered_as_it_is_planned(problem: Problem) -> None:
    """Asked for one by one, hosts have the plan's reasons, and those without hold what a batch there would get."""
    zone, request = problem
    snapshot = zone.snapshot()
    made = plan(snapshot, request)
    answers = HostAnswers(snapshot, request, placement_catalog()).of([host.id for host in zone.hosts])
    assert Counter(answer.reason for answer in answers if answer.reason) == made.excluded
    assert all((answer.capacity > 0) == (answer.reason is None) for answer in answers)
    for answer in answers:
        if request.host_id not in (None, answer.host_id):
            continue  # another pin would be another request
        pinned = replace(request, count=99, host_id=answer.host_id)
        assert plan(snapshot, pinned).placed == min(answer.capacity, 99) or needs_one_host(request)


@examples(150)
@given(problem=problems(without=frozenset({"affinity"})), data=st.data())
def test_a_volume_by_itself_goes_to_the_emptiest_pool(problem: Problem, data: st.DataObject) -> None:
    """Of the pools that serve it from its VM's host the one with most room; of equals the lowest id."""
    zone, request = problem
    for disk in request.disks:
        host = data.draw(st.sampled_from(zone.hosts))
        serving = [pool for pool in zone.pools if serves(pool, disk, request, host)]
        capacities = [(pool.allocated - pool.limit, pool.id) for pool in serving]
        fitting = [capacity for capacity in capacities if -capacity[0] >= disk.size_bytes]
        expected = min(fitting)[1] if fitting else None
        assert emptiest_pool(zone.snapshot(), disk, host.id, request.hypervisor) == expected


@examples(150)
@given(problem=problems())
def test_nothing_is_filled_above_its_limit(problem: Problem) -> None:
    """No plan takes a host's CPU, memory or guests, or a pool's bytes, above what they may hold."""
    zone, request = problem
    made = plan(zone.snapshot(), request)
    after = zone.after(request, made)
    for host_id, vms in per_host(made).items():
        host = after.host(host_id)
        assert host.cpu_used <= host.cpu_limit
        assert host.memory_used <= host.memory_limit
        assert host.vms_used <= host.vms_limit
        assert vms > 0
    for pool in after.pools:
        assert pool.allocated <= max(pool.limit, zone.pool(pool.id).allocated)


@examples(150)
@given(problem=problems(most_disks=3))
def test_every_disk_lies_in_a_pool_that_serves_it(problem: Problem) -> None:
    """Each disk's pool is up, reachable from the VM's host, of its storage type and carries its tags."""
    zone, request = problem
    made = plan(zone.snapshot(), request)
    assert made.pool_ids.shape == (made.placed, len(request.disks))
    for host_id, pool_ids in zip(made.host_ids.tolist(), made.pool_ids.tolist(), strict=True):
        for disk, pool_id in zip(request.disks, pool_ids, strict=True):
            assert serves(zone.pool(pool_id), disk, request, zone.host(host_id))


@examples(100)
@given(problem=problems(most_disks=3))
def test_plans_with_several_disks_place_one_by_one_too(problem: Problem) -> None:
    """With up to three disks of mixed tags and types the counts per cluster still are the oracle's."""
    zone, request = problem
    assert per_cluster(plan(zone.snapshot(), request)) == place_one_by_one(zone, request).per_cluster


@examples(100)
@given(problem=problems(), data=st.data())
def test_the_order_of_listing_does_not_matter(problem: Problem, data: st.DataObject) -> None:
    """The same zone listed in another order gives the very same plan."""
    zone, request = problem
    shuffled = Zone(
        data.draw(st.permutations(zone.clusters)),
        data.draw(st.permutations(zone.hosts)),
        data.draw(st.permutations(zone.pools)),
    )
    assert_same(plan(zone.snapshot(), request), plan(shuffled.snapshot(), request))


@examples(50)
@given(problem=problems())
def test_the_same_seed_gives_the_same_plan(problem: Problem) -> None:
    """Planning twice changes nothing, neither the plan nor the snapshot."""
    zone, request = problem
    snapshot = zone.snapshot()
    assert_same(plan(snapshot, request), plan(snapshot, request))


@examples(150)
@given(problem=problems(most_disks=1), first=st.integers(0, 25))
def test_a_batch_in_two_parts_ends_as_in_one(problem: Problem, first: int) -> None:
    """Planning a, then b on what that leaves, gives each cluster what planning a + b gives it."""
    zone, request = problem
    first = min(first, request.count)
    if request.planner not in ("UserDispersingPlanner", "UserConcentratedPodPlanner"):
        request = replace(request, planner="UserConcentratedPodPlanner")
    at_once = plan(zone.snapshot(), request)
    part = replace(request, count=first)
    made = plan(zone.snapshot(), part)
    rest = replace(request, count=request.count - first, affinities=affinities_after(part, made))
    then = plan(zone.after(part, made).snapshot(), rest)
    assert Counter(per_cluster(made)) + Counter(per_cluster(then)) == Counter(per_cluster(at_once))


@examples(100)
@given(problem=problems())
def test_capacity_is_what_an_endless_batch_gets(problem: Problem) -> None:
    """The capacity of a plan is the number of VMs that a batch without end would place."""
    zone, request = problem
    endless = plan(zone.snapshot(), replace(request, count=10_000))
    assert endless.capacity == endless.placed
    assert plan(zone.snapshot(), request).capacity == endless.placed


@examples(150)
@given(problem=problems())
def test_no_cluster_ends_two_above_one_that_still_had_room(problem: Problem) -> None:
    """A cluster that got a VM ends at most one above each eligible one with room left, by the owner's VMs."""
    zone, request = problem
    request = replace(request, planner="UserDispersingPlanner", pods_first=False)
    made = plan(zone.snapshot(), request)
    final = {spread.cluster_id: spread.before + spread.added for spread in made.spread}
    after = zone.after(request, made)
    rest = replace(request, count=1, affinities=affinities_after(request, made))
    still_open = [spread.cluster_id for spread in plan(after.snapshot(), rest).spread]
    for cluster_id in per_cluster(made):
        assert all(final[cluster_id] <= final[other] + 1 for other in still_open)


@examples(150)
@given(problem=problems(without=frozenset({"pools", "zone pools", "local pools"})))
def test_no_pod_ends_two_above_one_that_still_had_room(problem: Problem) -> None:
    """With pods first the same holds between pods, and between the clusters of each pod."""
    zone, request = problem
    request = replace(request, planner="UserDispersingPlanner", pods_first=True)
    made = plan(zone.snapshot(), request)
    after = zone.after(request, made)
    rest = replace(request, count=1, affinities=affinities_after(request, made))
    still_open = [after.cluster(spread.cluster_id) for spread in plan(after.snapshot(), rest).spread]
    pods = Counter({cluster.pod_id: 0 for cluster in after.clusters})
    for cluster in after.clusters:
        pods[cluster.pod_id] += cluster.owner_vms
    for cluster_id in per_cluster(made):
        chosen = after.cluster(cluster_id)
        for other in still_open:
            assert pods[chosen.pod_id] <= pods[other.pod_id] + 1
            if other.pod_id == chosen.pod_id:
                assert chosen.owner_vms <= other.owner_vms + 1


@examples(150)
@given(problem=problems())
def test_strict_affinity_holds(problem: Problem) -> None:
    """No host has two VMs of a strict anti-affinity group, and a host affinity group keeps to its hosts."""
    zone, request = problem
    made = plan(zone.snapshot(), request)
    for before, now in zip(request.affinities, affinities_after(request, made), strict=True):
        if before.kind is AffinityType.HOST_ANTI_AFFINITY:
            assert all(now.vms_by_host[host_id] == 1 for host_id in per_host(made))
        if before.kind is AffinityType.HOST_AFFINITY:
            assert set(per_host(made)) <= set(before.vms_by_host) or len(now.vms_by_host) == 1


@examples(100)
@given(problem=problems())
def test_pins_and_dedication_hold(problem: Problem) -> None:
    """VMs only go to the pinned pod, cluster or host, to no avoided host, and to dedicated hosts as asked."""
    zone, request = problem
    made = plan(zone.snapshot(), request)
    assert request.pod_id is None or set(made.pod_ids.tolist()) <= {request.pod_id}
    assert request.cluster_id is None or set(made.cluster_ids.tolist()) <= {request.cluster_id}
    assert request.host_id is None or set(made.host_ids.tolist()) <= {request.host_id}
    assert not request.avoid_host_ids & set(made.host_ids.tolist())
    for host in map(zone.host, per_host(made)):
        assert not host.foreign
        assert host.own == request.dedicated


@examples(100)
@given(problem=problems())
def test_ids_agree_and_the_spread_tells_the_plan(problem: Problem) -> None:
    """Each VM's host, cluster and pod belong together, and the spread adds up to the plan."""
    zone, request = problem
    made = plan(zone.snapshot(), request)
    for place in zip(made.host_ids.tolist(), made.cluster_ids.tolist(), made.pod_ids.tolist(), strict=True):
        host = zone.host(place[0])
        assert place == (host.id, host.cluster_id, zone.cluster(host.cluster_id).pod_id)
    assert {spread.cluster_id: spread.added for spread in made.spread if spread.added} == per_cluster(made)
    assert all(0 <= spread.added <= spread.capacity for spread in made.spread)
    assert all(spread.before == zone.cluster(spread.cluster_id).owner_vms for spread in made.spread)


def assert_same(one: Plan, other: Plan) -> None:
    """Every part of two plans is equal."""
    for name in ("host_ids", "cluster_ids", "pod_ids", "pool_ids"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.requested, one.capacity, one.excluded, tuple(one.spread)) == (
        other.requested,
        other.capacity,
        other.excluded,
        tuple(other.spread),
    )
