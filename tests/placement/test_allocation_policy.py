"""Policies of allocation: unallocable clusters get nothing, and last resorts what the others have no room for."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.domain.infrastructure.topology import AffinityType, AllocationPolicy
from bulkdeploy.placement.model import Affinity, PlacementRequest
from tests.placement.zone_builder import Zone, even_zone, per_cluster, plan, request
from tests.placement.zone_strategies import problems
from tests.support.runs.properties import examples

PREFERRED, LAST_RESORT, UNALLOCABLE = (policy.rank for policy in AllocationPolicy)


def zone_of(*policies: int) -> Zone:
    """A cluster of four slots for each policy, with ids 1, 2, ..."""
    zone = even_zone(len(policies), 2, slots=2)
    for cluster, policy in zip(zone.clusters, policies, strict=True):
        cluster.policy = policy
    return zone


def test_last_resorts_wait_until_the_others_are_full() -> None:
    """Up to what preferred clusters hold, dispersed over them; then the last resort; the unallocable never."""
    zone = zone_of(LAST_RESORT, PREFERRED, UNALLOCABLE, PREFERRED).snapshot()
    assert per_cluster(plan(zone, request(6))) == {2: 3, 4: 3}
    assert per_cluster(plan(zone, request(10))) == {1: 2, 2: 4, 4: 4}
    most = plan(zone, request(13))
    assert (most.placed, most.capacity, most.excluded["unallocable"]) == (12, 12, 2)


def test_pinned_and_grouped_vms() -> None:
    """A pin to a last resort holds; VMs of one affinity group go to a preferred host while one has room."""
    zone = zone_of(LAST_RESORT, PREFERRED)
    assert per_cluster(plan(zone.snapshot(), request(2, cluster_id=1))) == {1: 2}
    together = (Affinity(AffinityType.HOST_AFFINITY, {}),)
    zone.host(21).memory_used = 1024
    zone.host(22).memory_used = 1024
    assert per_cluster(plan(zone.snapshot(), request(1, affinities=together))) == {2: 1}


@examples(60)
@given(problem=problems(without=frozenset({"affinity"})), data=st.data())
def test_a_policy_only_changes_the_order(problem: tuple[Zone, PlacementRequest], data: st.DataObject) -> None:
    """As many VMs are placed as without last resorts, none there while others have room, in one call or in two."""
    zone, wanted = problem
    wanted = replace(wanted, planner="UserDispersingPlanner", offering_planner=None)
    without = plan(zone.snapshot(), wanted)
    for cluster in zone.clusters:
        cluster.policy = data.draw(st.sampled_from([PREFERRED, LAST_RESORT]))
    made = plan(zone.snapshot(), wanted)
    last = {cluster.id for cluster in zone.clusters if cluster.policy == LAST_RESORT}
    if not any(pool.cluster_id is None and pool.host_id is None for pool in zone.pools):
        assert made.placed == without.placed
    if last & set(per_cluster(made)):
        left = zone.after(wanted, made)
        following = plan(left.snapshot(), replace(wanted, count=1000))
        assert set(per_cluster(following)) <= last
