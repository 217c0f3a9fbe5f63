"""Count dispersion over clusters and pods, as stories."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.placement.claimed_plans import after
from tests.placement.zone_builder import Zone, even_zone, per_cluster, per_host, plan, request
from tests.support.runs.properties import examples


def with_owner_vms(zone: Zone, **owner_vms: int) -> Zone:
    """Give the owner so many VMs in the clusters c1, c2, ..."""
    for name, vms in owner_vms.items():
        cluster = zone.cluster(int(name[1:]))
        cluster.owner_vms, cluster.all_vms = vms, vms
    return zone


@pytest.mark.parametrize(
    ("before", "count", "expected"),
    [
        ({}, 8, {1: 2, 2: 2, 3: 2, 4: 2}),
        ({}, 7, {1: 2, 2: 2, 3: 2, 4: 1}),
        ({}, 1, {1: 1}),
        ({"c1": 5, "c2": 1}, 3, {2: 1, 3: 1, 4: 1}),
        ({"c1": 9, "c2": 9, "c3": 9}, 4, {4: 4}),
        ({"c1": 3, "c2": 1, "c3": 0, "c4": 2}, 6, {2: 2, 3: 3, 4: 1}),
    ],
)
def test_vms_go_where_the_owner_has_fewest(before: dict[str, int], count: int, expected: dict[int, int]) -> None:
    """The clusters end as level as what was there before allows."""
    zone = with_owner_vms(even_zone(clusters=4, hosts=2), **before)
    assert per_cluster(plan(zone.snapshot(), request(count))) == expected


def test_a_full_cluster_is_passed_over() -> None:
    """What a small cluster cannot take goes to the others, evenly."""
    zone = even_zone(clusters=3, hosts=4, slots=5)
    zone.hosts = [host for host in zone.hosts if host.cluster_id != 2 or host.id == 21]
    assert per_cluster(plan(zone.snapshot(), request(25))) == {1: 10, 2: 5, 3: 10}


def test_what_does_not_fit_is_refused_and_the_rest_placed() -> None:
    """Asked for more than the zone holds, the plan fills it and says what it could hold."""
    made = plan(even_zone(clusters=2, hosts=1, slots=3).snapshot(), request(10))
    assert (made.placed, made.refused, made.capacity) == (6, 4, 6)


def test_fewer_vms_in_all_decides_between_equal_counts() -> None:
    """Between clusters where the owner has the same, the one with fewer VMs of others goes first."""
    zone = even_zone(clusters=3, hosts=1)
    zone.cluster(1).all_vms, zone.cluster(2).all_vms, zone.cluster(3).all_vms = 7, 3, 5
    assert per_cluster(plan(zone.snapshot(), request(1))) == {2: 1}
    assert per_cluster(plan(zone.snapshot(), request(2))) == {2: 1, 3: 1}


def test_more_free_slots_decides_next() -> None:
    """Between clusters with the same counts, the roomier one goes first; then the lower id."""
    zone = even_zone(clusters=3, hosts=2)
    zone.host(11).cpu_used = 1000
    assert per_cluster(plan(zone.snapshot(), request(1))) == {2: 1}
    assert per_cluster(plan(zone.snapshot(), request(2))) == {2: 1, 3: 1}


def test_free_slots_are_those_left_when_the_counts_meet() -> None:
    """Cluster 1 has more slots at first, but fewer once it has caught up with cluster 2, which then goes first."""
    zone = with_owner_vms(even_zone(clusters=2, hosts=1, slots=10), c2=3)
    zone.host(21).cpu_used = 2000
    assert per_cluster(plan(zone.snapshot(), request(4))) == {1: 3, 2: 1}


def test_pods_first_levels_pods_then_the_clusters_inside() -> None:
    """One cluster in pod 2, three in pod 1: pod 2's cluster takes half of the batch."""
    zone = even_zone(clusters=4, hosts=3)
    zone.cluster(4).pod_id = 2
    assert per_cluster(plan(zone.snapshot(), request(12, pods_first=True))) == {1: 2, 2: 2, 3: 2, 4: 6}
    assert per_cluster(plan(zone.snapshot(), request(12))) == {1: 3, 2: 3, 3: 3, 4: 3}


def test_pods_first_counts_clusters_that_take_no_vms() -> None:
    """The owner's VMs in a disabled cluster still make its pod the fuller one."""
    zone = with_owner_vms(even_zone(clusters=3, hosts=2), c1=6)
    zone.cluster(1).enabled = False
    zone.cluster(3).pod_id = 2
    assert per_cluster(plan(zone.snapshot(), request(6, pods_first=True))) == {3: 6}


def test_pods_first_passes_over_a_full_pod() -> None:
    """What a full pod cannot take goes to the other."""
    zone = even_zone(clusters=3, hosts=1, slots=4)
    zone.cluster(3).pod_id = 2
    assert per_cluster(plan(zone.snapshot(), request(11, pods_first=True))) == {1: 4, 2: 3, 3: 4}


def test_a_pinned_pod_is_dispersed_inside() -> None:
    """With a pod pinned its clusters share the batch."""
    zone = even_zone(clusters=4, hosts=2, pods=2)
    assert per_cluster(plan(zone.snapshot(), request(6, pod_id=2))) == {2: 3, 4: 3}


def test_the_spread_names_every_eligible_cluster() -> None:
    """Before, room and added are given for each cluster that could take a VM, got one or not."""
    zone = with_owner_vms(even_zone(clusters=3, hosts=1, slots=4), c1=5)
    zone.cluster(3).enabled = False
    spread = plan(zone.snapshot(), request(2)).spread
    assert [(each.cluster_id, each.pod_id, each.before, each.capacity, each.added) for each in spread] == [
        (1, 1, 5, 4, 0),
        (2, 1, 0, 4, 2),
    ]


def test_the_test_of_the_reference_holds() -> None:
    """Twice the clusters less one: every cluster ends within one of the average."""
    for clusters in range(1, 9):
        made = plan(even_zone(clusters, hosts=2).snapshot(), request(2 * clusters - 1))
        assert sorted(per_cluster(made).values()) == [1, *[2] * (clusters - 1)]


def test_jobs_alternate_between_clusters_and_hosts() -> None:
    """In job order clusters take turns, and inside a cluster hosts do."""
    made = plan(even_zone(clusters=2, hosts=2, slots=3).snapshot(), request(12, host_algorithm="firstfit"))
    assert made.cluster_ids.tolist() == [1, 2] * 6
    assert made.host_ids.tolist() == [11, 21, 12, 22] * 3
    assert per_host(made) == {11: 3, 12: 3, 21: 3, 22: 3}


@examples(50)
@given(
    before=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_a_divided_plan_disperses_each_part_as_if_it_came_after_those_before_it(
    before: list[int], counts: list[int]
) -> None:
    """After each part the clusters are as level as planning it on what the parts before it left would make them."""
    numbered = {f"c{number}": vms for number, vms in enumerate(before, 1)}
    snapshot = with_owner_vms(even_zone(clusters=len(before), hosts=2, slots=6), **numbered).snapshot()
    whole = request(sum(counts))
    made = plan(snapshot, whole)
    parts = made.split(counts)
    assert sorted(host for part in parts for host in part.host_ids.tolist()) == sorted(made.host_ids.tolist())
    for part, count in zip(parts, counts, strict=True):
        alone = plan(snapshot, replace(whole, count=count))
        assert (part.requested, part.placed, part.capacity) == (count, alone.placed, alone.capacity)
        assert sorted(each.before + each.added for each in part.spread if each.capacity) == sorted(
            each.before + each.added for each in alone.spread
        )
        snapshot = after(snapshot, whole, part)
