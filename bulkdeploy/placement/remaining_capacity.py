"""The number of further VMs that fit, their places, and what limits them.

By the planner itself, which would place just these.

There is no other count of what fits than the planner's own: as many are planned as it says it has room for.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bulkdeploy.placement.capacity import measure_capacity
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.claimed_plans import after, with_members_of
from bulkdeploy.placement.host_loss import HeldVms, host_not_to_lose
from bulkdeploy.placement.model import PlacementRequest, Plan, ZoneSnapshot
from bulkdeploy.placement.planner import plan
from bulkdeploy.placement.rules import n1, out_of_scope
from bulkdeploy.placement.shortage import shortage

MEMORY_STEP_MIB = 64
"""Memory shrinks by whole steps, as hspace's does."""


@dataclass(frozen=True, slots=True)
class Filled:
    """As many VMs of a request as fit.

    ``left``, ``following``, ``held``: the zone, the request's affinity groups and what hosts hold once they are
    claimed. ``ended_by``: reasons for which hosts that had room before take no more, with how many hosts; empty
    where no more were asked for. ``lost_host_id``: the host that could not be lost, were there one VM more.
    """

    request: PlacementRequest
    plan: Plan
    left: ZoneSnapshot
    following: PlacementRequest
    held: HeldVms | None
    ended_by: Mapping[str, int]
    lost_host_id: int | None = None


def fill_up(
    snapshot: ZoneSnapshot,
    request: PlacementRequest,
    catalog: PlacementCatalog,
    *,
    most: int | None = None,
    held: HeldVms | None = None,
) -> Filled:
    """Place as many VMs of the request as fit, whatever its count is, but no more than ``most``.

    With ``held``, what hosts hold by now, only as many as leave room for the loss of any one host. Fewer than fit
    without it are found by halves: fewer VMs leave room, too.

    Raises:
        PlannerNotInstalled: the request names a planner that is not there.
    """
    capacity = plan(snapshot, replace(request, count=0), catalog).capacity
    count = capacity if most is None else min(capacity, most)
    lost: int | None = None
    if held is not None:
        lost_with: dict[int, int | None] = {}

        def is_too_many(vms: int) -> bool:
            sized = replace(request, count=vms)
            made = plan(snapshot, sized, catalog)
            lost_with[vms] = host_not_to_lose(after(snapshot, sized, made), held.plus(sized, made), catalog)
            return lost_with[vms] is not None

        kept = bisect_left(range(1, count + 1), x=True, key=is_too_many)
        lost, count = (lost_with[kept + 1] if kept < count else None), kept
    sized = replace(request, count=count)
    made = plan(snapshot, sized, catalog)
    left = after(snapshot, sized, made)
    following = with_members_of(sized, made)
    ended: Mapping[str, int] = {}
    if lost is not None:
        ended = {n1.RULE.reason: 1}
    elif count == capacity:
        ended = _ended_by(snapshot, request, left, following, catalog)
    return Filled(sized, made, left, following, held and held.plus(sized, made), ended, lost)


def smaller(
    filled: Filled, catalog: PlacementCatalog, *, least_cores: int, least_memory_mib: int
) -> PlacementRequest | None:
    """Return the next size to fill up with: cores and memory (MiB) shrink, not below these; None: there is none.

    The largest that fits on the host that comes closest; where it is the loss of a host that leaves no room, the
    most memory with which one VM more still leaves it. Speed and disks stay.
    """
    request = filled.following
    if filled.lost_host_id is not None:
        memory = _most_memory(filled, catalog, least_memory_mib)
        return None if memory is None else replace(request, memory_mib=memory)
    short = shortage(filled.left, request, catalog)
    if short is None or short.storage_bytes:
        return None
    cores = request.cpu_number - -(-short.cpu_mhz // max(request.cpu_mhz, 1))
    memory = request.memory_mib - -(-short.memory_mib // MEMORY_STEP_MIB) * MEMORY_STEP_MIB
    if cores < least_cores or memory < least_memory_mib:
        return None
    return replace(request, cpu_number=cores, memory_mib=memory)


def _most_memory(filled: Filled, catalog: PlacementCatalog, least_mib: int) -> int | None:
    """Return the most memory below the request's with which one VM more keeps N+1."""
    request, held = filled.following, filled.held
    sizes = range(least_mib, request.memory_mib, MEMORY_STEP_MIB)

    def is_too_much(memory_mib: int) -> bool:
        wanted = replace(request, memory_mib=memory_mib)
        return not fill_up(filled.left, wanted, catalog, most=1, held=held).plan.placed

    fitting = bisect_left(sizes, x=True, key=is_too_much)
    return sizes[fitting - 1] if fitting else None


def _ended_by(
    before: ZoneSnapshot,
    request: PlacementRequest,
    left: ZoneSnapshot,
    following: PlacementRequest,
    catalog: PlacementCatalog,
) -> dict[str, int]:
    """Return why hosts that had capacity take no more VMs; if none had any, why none had."""
    found = measure_capacity(before, request, catalog)
    open_before = found.candidates.at[found.of_candidates() > 0]
    now = measure_capacity(left, following, catalog).hosts
    at = open_before if len(open_before) else np.arange(len(before.hosts.id))
    reasons = Counter(reason for host in at.tolist() if (reason := now.reason(host)) is not None)
    elsewhere = reasons.pop(out_of_scope.RULE.reason, 0)
    if not reasons and elsewhere:
        reasons[out_of_scope.RULE.reason] = elsewhere
    return dict(reasons.most_common())
