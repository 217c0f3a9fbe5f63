"""Plans of a batch of unlike VMs: each kind on what the kinds before it leave, the largest kind first.

A batch is a list of requests, one per kind, each for ``count`` alike VMs. One kind alone gives its own plan. More
are planned by size: what is large finds room before what is small takes it, and what is small fills what is left.
Counts of the owner's VMs run on from kind to kind, so that every VM goes where the owner has fewest at its turn.

Where some VMs find no place, other orders are tried, on the hosts as the algorithm chooses them and packed tightly,
before any of them is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.model import Affinity, Ints, NewVms, PlacementRequest, Plan, ZoneSnapshot
from bulkdeploy.placement.planner import plan

PACKED = "firstfit"
"""The host algorithm that leaves the largest holes."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """``plans`` in the order of the requests, and ``turns``, the order in which they were made.

    ``left``: the zone once all of them are claimed, where some VMs were refused.
    """

    plans: tuple[Plan, ...]
    turns: tuple[int, ...]
    left: ZoneSnapshot

    @property
    def placed(self) -> int:
        """How many VMs got a host."""
        return sum(each.placed for each in self.plans)

    @property
    def refused(self) -> int:
        """How many did not."""
        return sum(each.refused for each in self.plans)


def plan_batch(
    snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest], catalog: PlacementCatalog
) -> BatchPlan:
    """Where the VMs of all requests go, of one owner's in one zone: all of them, or as many as were found room for.

    Raises:
        PlannerNotInstalled: a request names a planner that is not there.
    """
    best: BatchPlan | None = None
    for turns, packed in _attempts(snapshot, requests):
        made = _in_turns(snapshot, requests, turns, catalog, packed=packed)
        if best is None or made.placed > best.placed:
            best = made
        if not best.refused:
            break
    return best or BatchPlan((), (), snapshot)


def after(snapshot: ZoneSnapshot, request: PlacementRequest, made: Plan) -> ZoneSnapshot:
    """The zone once a plan of its owner's is claimed."""
    if not made.placed:
        return snapshot
    on_host = _counted(snapshot, "hosts by id", snapshot.hosts.id, made.host_ids)
    allocated = np.zeros(len(snapshot.pools.id), dtype=np.int64)
    for position, disk in enumerate(request.disks):
        chosen = made.pool_ids[:, position]
        allocated += disk.size_bytes * _counted(snapshot, "pools by id", snapshot.pools.id, chosen[chosen >= 0])
    return snapshot.with_vms(
        NewVms(
            on_host,
            _counted(snapshot, "clusters by id", snapshot.clusters.id, made.cluster_ids),
            allocated,
            request.cpu_number * request.cpu_mhz,
            request.memory_mib,
        )
    )


def with_members_of(request: PlacementRequest, made: Plan) -> PlacementRequest:
    """The request with its affinity groups as they are once a plan of its is claimed."""
    members: dict[int, Mapping[int, int]] = {}
    add_members(request, made, members)
    return with_members(request, members)


def without(snapshot: ZoneSnapshot, request: PlacementRequest, host_id: int) -> ZoneSnapshot:
    """The zone once a VM such as the request's has left a host; it still counts as its owner's there."""
    hosts = snapshot.hosts
    gone = (hosts.id == host_id).astype(np.int64)
    return replace(
        snapshot,
        hosts=replace(
            hosts,
            cpu_used=hosts.cpu_used - gone * (request.cpu_number * request.cpu_mhz),
            memory_used=hosts.memory_used - gone * request.memory_mib,
            vms_used=hosts.vms_used - gone,
        ),
    )


def _in_turns(
    snapshot: ZoneSnapshot,
    requests: Sequence[PlacementRequest],
    turns: Sequence[int],
    catalog: PlacementCatalog,
    *,
    packed: bool,
) -> BatchPlan:
    plans: dict[int, Plan] = {}
    members: dict[int, Mapping[int, int]] = {}
    for turn, position in enumerate(turns):
        request = with_members(requests[position], members)
        algorithm = PACKED if packed else request.host_algorithm
        request = replace(request, seed=request.seed + turn, host_algorithm=algorithm)
        made = plans[position] = plan(snapshot, request, catalog)
        if turn + 1 < len(turns) or made.refused:
            snapshot = after(snapshot, request, made)
            add_members(request, made, members)
    return BatchPlan(tuple(plans[position] for position in range(len(requests))), tuple(turns), snapshot)


def with_members(request: PlacementRequest, members: Mapping[int, Mapping[int, int]]) -> PlacementRequest:
    """The request with its affinity groups as those before it leave them."""
    if not any(affinity.group_id in members for affinity in request.affinities):
        return request
    affinities = tuple(
        Affinity(affinity.kind, members.get(affinity.group_id, affinity.vms_by_host), affinity.group_id)
        for affinity in request.affinities
    )
    return replace(request, affinities=affinities)


def add_members(request: PlacementRequest, made: Plan, members: dict[int, Mapping[int, int]]) -> None:
    """Add the VMs of a plan to ``members``: of each affinity group, its VMs by host."""
    if not request.affinities:
        return
    hosts, vms = np.unique(made.host_ids, return_counts=True)
    added = list(zip(hosts.tolist(), vms.tolist(), strict=True))
    for affinity in request.affinities:
        now = dict(affinity.vms_by_host)
        for host_id, count in added:
            now[host_id] = now.get(host_id, 0) + count
        members[affinity.group_id] = now


def _attempts(
    snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest]
) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Orders of the kinds, and whether hosts are packed: the first is taken wherever everything fits."""
    if len(requests) < 2:
        yield tuple(range(len(requests))), False
        return
    shares = _shares(snapshot, requests)
    orders: list[Callable[[int], tuple[float, ...]]] = [
        lambda at: (-max(shares[at]),),
        lambda at: (-sum(shares[at]),),
        *(lambda at, column=column: (-shares[at][column],) for column in range(len(shares[0]))),
        lambda at: (max(shares[at]),),
    ]
    tried = set()
    for packed in (False, True):
        for order in orders:
            turns = tuple(sorted(range(len(requests)), key=order))
            if (turns, packed) not in tried:
                tried.add((turns, packed))
                yield turns, packed


def _shares(snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest]) -> list[tuple[float, ...]]:
    """Of the zone's CPU, memory and storage, what one VM of each request takes."""
    use = snapshot.cluster_use
    cpu, memory = max(int(use.cpu_limit.sum()), 1), max(int(use.memory_limit.sum()), 1)
    storage = max(int(snapshot.pools.limit.sum()), 1)
    return [
        (
            request.cpu_number * request.cpu_mhz / cpu,
            request.memory_mib / memory,
            sum(disk.size_bytes for disk in request.disks) / storage,
        )
        for request in requests
    ]


def _counted(snapshot: ZoneSnapshot, name: str, ids: Ints, wanted: Ints) -> Ints:
    """How often each of ``ids`` is among ``wanted``, all of which are there."""
    order = snapshot.once(name, lambda: ids.argsort(kind="stable"))
    at = order[ids.searchsorted(wanted, sorter=order)]
    return np.bincount(at, minlength=len(ids))
