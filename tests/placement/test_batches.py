"""What holds for batches of unlike VMs, against placing them one at a time and against searching all placements."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median, pstdev

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.placement.batch import BatchPlan, plan_batch
from bulkdeploy.placement.claimed_plans import after
from bulkdeploy.placement.hosts import HOST_ALGORITHMS
from bulkdeploy.placement.model import Affinity, PlacementRequest, ZoneSnapshot
from bulkdeploy.scheduling.catalog import placement_catalog
from tests.placement.oracle import place_one_by_one
from tests.placement.test_laws import assert_same
from tests.placement.zone_builder import Cluster, Host, Zone, affinities_after, per_cluster, plan, request
from tests.placement.zone_strategies import problems
from tests.support.runs.properties import examples

SIZES = st.tuples(
    st.integers(0, 8), st.integers(1, 3), st.sampled_from([500, 1000]), st.sampled_from([0, 300, 500, 1500])
)
"""How many VMs of a kind, and one's cores, MHz a core and MiB."""

Batch = tuple[Zone, list[PlacementRequest]]


def planned(snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest]) -> BatchPlan:
    """The plan by the rules and strategies there are."""
    return plan_batch(snapshot, requests, placement_catalog())


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """A zone and up to five kinds of VMs for it, which differ in number and size."""
    zone, first = draw(problems(without=frozenset({"affinity"})))
    first = replace(first, planner="UserDispersingPlanner", pods_first=False)
    kinds = [first]
    for count, cores, mhz, memory in draw(st.lists(SIZES, max_size=4)):
        kinds.append(replace(first, count=count, cpu_number=cores, cpu_mhz=mhz, memory_mib=memory))
    return zone, kinds


@examples(60)
@given(batch=batches())
def test_every_vm_goes_where_placing_one_at_a_time_puts_it(batch: Batch) -> None:
    """Kind after kind, each cluster gets what one-by-one placing on what is left gives it."""
    zone, kinds = batch
    made = planned(zone.snapshot(), kinds)
    assert sorted(made.turns) == list(range(len(kinds)))
    for position in made.turns:
        kind, part = kinds[position], made.plans[position]
        assert per_cluster(part) == place_one_by_one(zone, kind).per_cluster
        assert part.placed + part.refused == kind.count
        zone = zone.after(kind, part)
    assert made.placed + made.refused == sum(kind.count for kind in kinds)


@examples(60)
@given(batch=batches())
def test_nothing_is_filled_above_its_limit_by_all_kinds_together(batch: Batch) -> None:
    """Claims of all kinds on a host or pool add up to no more than it may hold."""
    zone, kinds = batch
    final = zone
    for kind, part in zip(kinds, planned(zone.snapshot(), kinds).plans, strict=True):
        final = final.after(kind, part)
    for host in final.hosts:
        before = zone.host(host.id)
        assert host.cpu_used <= max(host.cpu_limit, before.cpu_used)
        assert host.memory_used <= max(host.memory_limit, before.memory_used)
        assert host.vms_used <= max(host.vms_limit, before.vms_used)
    for pool in final.pools:
        assert pool.allocated <= max(pool.limit, zone.pool(pool.id).allocated)


@examples(60)
@given(batch=batches())
def test_a_cluster_ends_at_most_one_above_those_that_still_take_its_vms(batch: Batch) -> None:
    """At each kind's turn: whoever got one of its VMs ends at most one above whoever has room for one more."""
    zone, kinds = batch
    made = planned(zone.snapshot(), kinds)
    for position in made.turns:
        kind, part = kinds[position], made.plans[position]
        zone = zone.after(kind, part)
        still_open = [spread.cluster_id for spread in plan(zone.snapshot(), replace(kind, count=1)).spread]
        for cluster_id in per_cluster(part):
            vms = zone.cluster(cluster_id).owner_vms
            assert all(vms <= zone.cluster(other).owner_vms + 1 for other in still_open)


@examples(60)
@given(problem=problems())
def test_one_kind_is_planned_as_the_bulk_call_plans_it(problem: tuple[Zone, PlacementRequest]) -> None:
    """A batch of alike VMs has the very plan of a request for as many."""
    zone, kind = problem
    (made,) = planned(zone.snapshot(), [kind]).plans
    assert_same(made, plan(zone.snapshot(), kind))


@examples(60)
@given(problem=problems(without=frozenset({"affinity", "pools", "zone pools", "local pools"})), data=st.data())
def test_kinds_that_differ_in_their_clusters_get_what_each_gets_alone(
    problem: tuple[Zone, PlacementRequest], data: st.DataObject
) -> None:
    """VMs that are pinned to clusters are planned together. Hosts, capacities and reasons stay the same."""
    zone, kind = problem
    algorithm = data.draw(st.sampled_from([name for name in HOST_ALGORITHMS if "random" not in name]))
    kinds = [
        replace(kind, cluster_id=cluster.id, count=data.draw(st.integers(0, 12)), host_algorithm=algorithm)
        for cluster in zone.clusters
    ]
    made = planned(zone.snapshot(), kinds)
    for pinned, part in zip(kinds, made.plans, strict=True):
        alone = plan(zone.snapshot(), pinned)
        assert_same(part, alone)
        assert part.limiting == alone.limiting
        zone = zone.after(pinned, part)
    if made.refused:
        np.testing.assert_array_equal(made.left.hosts.vms_used, zone.snapshot().hosts.vms_used)


@examples(40)
@given(batch=batches())
def test_the_zone_after_a_plan_is_what_its_claims_make_of_it(batch: Batch) -> None:
    """The columns that the next kind is planned on are those of a zone in which the plan was claimed.

    What was worked out of the zone before, and is kept, changes no later plan.
    """
    zone, (kind, *others) = batch
    made = plan(zone.snapshot(), kind)
    expected, found = zone.after(kind, made).snapshot(), after(zone.snapshot(), kind, made)
    for columns in ("clusters", "hosts", "pools"):
        one, other = getattr(expected, columns), getattr(found, columns)
        for name in one.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(expected.cluster_use.cpu_used, found.cluster_use.cpu_used)
    np.testing.assert_array_equal(expected.cluster_use.memory_used, found.cluster_use.memory_used)
    for following in others:
        assert_same(plan(found, following), plan(expected, following))


@examples(30)
@given(kinds=st.lists(st.tuples(st.integers(1, 3), st.sampled_from([512, 1024])), min_size=2, max_size=4))
def test_groups_span_kinds(kinds: list[tuple[int, int]]) -> None:
    """Unlike VMs of one strict anti-affinity group share no host, those of one affinity group share one."""
    zone = Zone(
        [Cluster(1), Cluster(2)],
        [Host(number, 1 + number % 2, cpu_limit=9000, memory_limit=9000) for number in range(1, 7)],
    )
    for kind, most in ((AffinityType.HOST_ANTI_AFFINITY, 1), (AffinityType.HOST_AFFINITY, 12)):
        group = (Affinity(kind, {}, 5),)
        made = planned(zone.snapshot(), [request(n, memory_mib=size, affinities=group) for n, size in kinds])
        hosts = Counter(host for part in made.plans for host in part.host_ids.tolist())
        assert all(vms <= most for vms in hosts.values())
        if kind is AffinityType.HOST_AFFINITY:
            assert len(hosts) == 1
        else:
            assert made.placed == min(6, sum(count for count, _ in kinds))


def test_members_of_a_group_count_for_later_kinds_only_where_they_are_of_it() -> None:
    """Kinds outside a group may share the hosts of its VMs."""
    zone = Zone([Cluster(1)], [Host(1, 1), Host(2, 1)])
    apart = (Affinity(AffinityType.HOST_ANTI_AFFINITY, {}, 5),)
    made = planned(
        zone.snapshot(),
        [request(2, memory_mib=2048, affinities=apart), request(4), request(1, memory_mib=512, affinities=apart)],
    )
    assert [part.placed for part in made.plans] == [2, 4, 0]
    (first, *_) = made.plans
    assert affinities_after(request(2, affinities=apart), first)[0].vms_by_host == {1: 1, 2: 1}


def test_the_share_of_the_optimum_that_is_placed() -> None:
    """On small tight zones the median of VMs placed is at least 0.99 of what a search of all placements finds."""
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(40):
        hosts, vms = _tight_zone(rng)
        zone = Zone(
            [Cluster(1), Cluster(2)],
            [
                Host(number + 1, 1 + number % 2, cores=64, cpu_limit=cpu * 1000, memory_limit=memory * 1024)
                for number, (cpu, memory) in enumerate(hosts)
            ],
        )
        kinds = [
            request(count, cpu_number=cpu, memory_mib=memory * 1024)
            for (cpu, memory), count in Counter(vms).items()
        ]
        best = _most_placed(tuple(sorted(hosts)), tuple(sorted(vms, reverse=True)))
        shares.append(planned(zone.snapshot(), kinds).placed / best)
    assert max(shares) <= 1
    assert median(shares) >= 0.99
    assert min(shares) >= 0.6


def _tight_zone(rng: np.random.Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Two to four hosts, and VMs that ask for about all that these have; cores and GiB."""
    hosts = [(int(rng.integers(6, 13)), int(rng.integers(6, 13))) for _ in range(rng.integers(2, 5))]
    wanted = sum(cpu for cpu, _ in hosts) * rng.uniform(0.8, 1.3)
    vms: list[tuple[int, int]] = []
    while sum(cpu for cpu, _ in vms) < wanted and len(vms) < 11:
        vms.append((int(rng.integers(1, 7)), int(rng.integers(1, 7))))
    return hosts, vms


def _most_placed(hosts: tuple[tuple[int, int], ...], vms: tuple[tuple[int, int], ...]) -> int:
    """The most VMs that any placement puts on the hosts: all are tried."""
    best = 0

    def search(free: tuple[tuple[int, int], ...], at: int, placed: int, seen: dict[object, int]) -> None:
        nonlocal best
        best = max(best, placed)
        if at == len(vms) or placed + len(vms) - at <= best or seen.get((at, free), -1) >= placed:
            return
        seen[(at, free)] = placed
        cpu, memory = vms[at]
        for number, left in enumerate(free):
            if (number == 0 or free[number - 1] != left) and left[0] >= cpu and left[1] >= memory:
                then = (*free[:number], (left[0] - cpu, left[1] - memory), *free[number + 1 :])
                search(tuple(sorted(then)), at + 1, placed + 1, seen)
        search(free, at + 1, placed, seen)

    search(hosts, 0, 0, {})
    return best


def test_memory_is_spread_no_worse_than_by_scoring_every_host() -> None:
    """20 hosts with 60 VMs, 100 more of four flavours: the standard deviation of memory use is at most 0.064.

    That is what hail, which scores every host for every VM, leaves on such a cluster.
    """
    rng = np.random.default_rng(5)
    flavours = ((1, 1024), (2, 2048), (2, 4096), (4, 8192))
    zone = Zone(
        [Cluster(1, owner_vms=60, all_vms=60)],
        [
            Host(number, 1, cores=32, cpu_limit=128_000, memory_limit=128 * 1024, vms_limit=99)
            for number in range(1, 21)
        ],
    )
    for _ in range(60):
        cores, memory = flavours[int(rng.integers(4))]
        host = zone.hosts[int(rng.integers(20))]
        host.cpu_used, host.memory_used = host.cpu_used + cores * 1000, host.memory_used + memory
        host.vms_used, host.owner_vms = host.vms_used + 1, host.owner_vms + 1
    kinds = [
        request(25, cpu_number=cores, memory_mib=memory, host_algorithm="firstfitleastconsumed")
        for cores, memory in flavours
    ]
    made = planned(zone.snapshot(), kinds)
    assert made.refused == 0
    for kind, part in zip(kinds, made.plans, strict=True):
        zone = zone.after(kind, part)
    assert pstdev(host.memory_used / host.memory_limit for host in zone.hosts) <= 0.064
