"""Plans for several kinds of VMs: the largest kind first, each kind on the capacity that earlier kinds leave.

A batch is a list of requests, one per kind, each for ``count`` equal VMs. A batch with one kind has the same result
as a single plan. Several kinds are planned by size: large VMs get hosts before small VMs use the capacity, and
small VMs fill the remaining capacity. Counts of the owner's VMs continue from kind to kind, so that every VM goes
to the cluster where the owner has the fewest VMs at that moment. If some VMs get no host, other orders are tried,
with the configured host algorithm and with tight packing, before any VM is refused.

Kinds that differ only in the cluster to which they are pinned are planned in one turn. Existing VMs are such kinds,
because their volumes are in pools of clusters.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.claimed_plans import add_members, after, with_members
from bulkdeploy.placement.model import PlacementRequest, Plan, ZoneSnapshot
from bulkdeploy.placement.planner import plan, plan_pinned

PACKED = "firstfit"
"""The host algorithm that leaves the largest holes."""

RESOURCES = 3
"""CPU, memory and storage."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The plans of a batch in the order of its requests.

    ``turns`` is the order in which the plans were made. If some VMs were refused, ``left`` is the zone after all
    plans are claimed.
    """

    plans: tuple[Plan, ...]
    turns: tuple[int, ...]
    left: ZoneSnapshot

    @property
    def placed(self) -> int:
        """The number of VMs that got a host."""
        return sum(each.placed for each in self.plans)

    @property
    def refused(self) -> int:
        """The number of VMs that got no host."""
        return sum(each.refused for each in self.plans)


def plan_batch(
    snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest], catalog: PlacementCatalog
) -> BatchPlan:
    """Return plans for all requests of one owner in one zone. The plans place all VMs, or as many as fit.

    Raises:
        PlannerNotInstalled: a request names a planner that is not installed.
    """
    best: BatchPlan | None = None
    groups = _group_by_pins(requests)
    for turns, packed in _attempts(snapshot, [requests[group[0]] for group in groups]):
        made = _in_turns(snapshot, requests, [groups[turn] for turn in turns], catalog, packed=packed)
        if best is None or made.placed > best.placed:
            best = made
        if not best.refused:
            break
    return best or BatchPlan((), (), snapshot)


def _group_by_pins(requests: Sequence[PlacementRequest]) -> list[list[int]]:
    """Return the positions of the requests in groups that ``plan_pinned`` can plan. Other requests are alone."""
    alike: dict[PlacementRequest, dict[int, int]] = {}
    groups: list[list[int]] = []
    for at, request in enumerate(requests):
        if request.cluster_id is None or request.disks or request.affinities or request.most_by_host is not None:
            groups.append([at])
            continue
        kind = alike.setdefault(replace(request, cluster_id=None, count=0), {})
        if kind.setdefault(request.cluster_id, at) != at:
            groups.append([at])
    return sorted(groups + [list(kind.values()) for kind in alike.values()])


def _in_turns(
    snapshot: ZoneSnapshot,
    requests: Sequence[PlacementRequest],
    turns: Sequence[Sequence[int]],
    catalog: PlacementCatalog,
    *,
    packed: bool,
) -> BatchPlan:
    plans: dict[int, Plan] = {}
    members: dict[int, Mapping[int, int]] = {}
    for turn, positions in enumerate(turns):
        planned = []
        for position in positions:
            request = with_members(requests[position], members)
            algorithm = PACKED if packed else request.host_algorithm
            planned.append(replace(request, seed=request.seed + turn, host_algorithm=algorithm))
        if len(planned) == 1:
            made = plan(snapshot, planned[0], catalog)
            parts = [made]
        else:
            made, parts = plan_pinned(snapshot, planned, catalog)
        plans.update(zip(positions, parts, strict=True))
        if turn + 1 < len(turns) or made.refused:
            snapshot = after(snapshot, planned[0], made)
            add_members(planned[0], made, members)
    in_order = tuple(position for positions in turns for position in positions)
    return BatchPlan(tuple(plans[position] for position in range(len(requests))), in_order, snapshot)


def _attempts(
    snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest]
) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Yield the orders of the kinds to try, each with whether hosts are packed tightly.

    The first order is used if all VMs fit with it.
    """
    orders = list(batch_orders(snapshot, requests))
    for packed in (False, True) if len(requests) > 1 else (False,):
        for turns in orders:
            yield turns, packed


def batch_orders(snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest]) -> Iterator[tuple[int, ...]]:
    """Yield the orders in which to plan the requests, as positions, until one order places all VMs.

    Requests of equal size keep their given order.
    """
    shares = _shares(snapshot, requests)
    orders: list[Callable[[int], tuple[float, ...]]] = [
        lambda at: (-max(shares[at]),),
        lambda at: (-sum(shares[at]),),
        *(lambda at, column=column: (-shares[at][column],) for column in range(RESOURCES)),
        lambda at: (max(shares[at]),),
    ]
    tried = set()
    for order in orders:
        turns = tuple(sorted(range(len(requests)), key=order))
        if turns not in tried:
            tried.add(turns)
            yield turns


def _shares(snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest]) -> list[tuple[float, ...]]:
    """Return, for each request, the shares of the zone's CPU, memory and storage that one of its VMs uses."""
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
