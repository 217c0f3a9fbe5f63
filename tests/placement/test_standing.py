"""Whether a plan still stands, against claiming it on the zone as it has become."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.placement.model import PlacementRequest, Plan
from bulkdeploy.placement.standing import Lacking, Places, stands
from bulkdeploy.scheduling.catalog import placement_catalog
from tests.placement.zone_builder import Zone, plan
from tests.placement.zone_strategies import problems
from tests.support.runs.properties import examples

Problem = tuple[Zone, PlacementRequest]


def judged(zone: Zone, request: PlacementRequest, made: Plan) -> Plan | list[Lacking]:
    """What there is to say of a plan on a zone."""
    places = Places(made.host_ids, made.pool_ids)
    return stands(zone.snapshot(), replace(request, count=made.placed), places, placement_catalog())


@examples(60)
@given(problem=problems())
def test_a_plan_stands_while_nothing_changes(problem: Problem) -> None:
    """The very places, with the very spread."""
    zone, request = problem
    made = plan(zone.snapshot(), request)
    again = judged(zone, request, made)
    assert isinstance(again, Plan)
    for name in ("host_ids", "cluster_ids", "pod_ids", "pool_ids"):
        np.testing.assert_array_equal(getattr(again, name), getattr(made, name))
    assert again.excluded == made.excluded
    assert {each.cluster_id: each.added for each in again.spread if each.added} == {
        each.cluster_id: each.added for each in made.spread if each.added
    }


@examples(100)
@given(problem=problems(without=frozenset({"affinity"})), others=st.integers(1, 40), memory=st.integers(0, 2000))
def test_what_stands_can_be_claimed_and_what_does_not_lacks_room(
    problem: Problem, others: int, memory: int
) -> None:
    """Others came in between: the plan fits beside them, or what is said to lack room does so."""
    zone, request = problem
    made = plan(zone.snapshot(), request)
    other = replace(request, count=others, memory_mib=memory, seed=request.seed + 1)
    now = zone.after(other, plan(zone.snapshot(), other))
    result = judged(now, request, made)
    if isinstance(result, Plan):
        claimed = now.after(request, result)
        for host_id in set(result.host_ids.tolist()):
            host = claimed.host(host_id)
            assert host.cpu_used <= host.cpu_limit
            assert host.memory_used <= host.memory_limit
            assert host.vms_used <= host.vms_limit
        for pool in claimed.pools:
            assert pool.allocated <= max(pool.limit, now.pool(pool.id).allocated)
    else:
        assert result
        assert all(each.needed > each.capacity for each in result)
