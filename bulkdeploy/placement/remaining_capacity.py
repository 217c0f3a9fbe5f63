"""The number of further VMs that fit, their hosts, and the reasons that limit their number.

The planner itself computes them: as many VMs are planned as it reports capacity for. There is no other count of the
VMs that fit.
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
class FillUpPlan:
    """A plan with the largest number of VMs of a request that fit.

    ``left``, ``following`` and ``held`` are the zone, the request's affinity groups and the VMs on hosts after the
    plan is claimed. ``ended_by`` counts hosts that had capacity before by the reason why they accept no more VMs;
    it is empty if no more VMs were requested. ``lost_host_id`` is the host whose failure the zone could not survive
    with one more VM.
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
) -> FillUpPlan:
    """Plan as many VMs of the request as fit, but at most ``most``. The count of the request is ignored.

    ``held`` has the VMs on hosts. If it is given, only as many VMs are placed as leave capacity for the loss of any
    single host. Their number is found by bisection, because fewer VMs leave more capacity.

    Raises:
        PlannerNotInstalled: the request names a planner that is not installed.
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
    return FillUpPlan(sized, made, left, following, held and held.plus(sized, made), ended, lost)


def smaller(
    filled: FillUpPlan, catalog: PlacementCatalog, *, least_cores: int, least_memory_mib: int
) -> PlacementRequest | None:
    """Return a request for the next smaller size that fits, or None if no size above the given minimum fits.

    The size is the largest that fits on the host that lacks least. Cores and memory (MiB) shrink; speed and disks
    stay. If the loss of a host is the limit, the size has the most memory with which one more VM leaves enough
    capacity.
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


def _most_memory(filled: FillUpPlan, catalog: PlacementCatalog, least_mib: int) -> int | None:
    """Return the largest memory below the request's with which one more VM survives the loss of any host."""
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
    """Count the hosts that had capacity and now accept no more VMs, by reason.

    If no host had capacity before, all hosts are counted by the reason.
    """
    found = measure_capacity(before, request, catalog)
    open_before = found.candidates.at[found.of_candidates() > 0]
    now = measure_capacity(left, following, catalog).hosts
    at = open_before if len(open_before) else np.arange(len(before.hosts.id))
    reasons = Counter(reason for host in at.tolist() if (reason := now.reason(host)) is not None)
    elsewhere = reasons.pop(out_of_scope.RULE.reason, 0)
    if not reasons and elsewhere:
        reasons[out_of_scope.RULE.reason] = elsewhere
    return dict(reasons.most_common())
