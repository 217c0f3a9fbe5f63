"""Stage of a deployment: plans hosts and pools for the VMs of all calls together.

If not all VMs fit, the error contains the number of VMs that would fit.

VMs of one *kind* have the same placement need: parts whose VMs differ only in addresses or user data are placed as
one kind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.domain.deployments.deployment import DeploySpec
from bulkdeploy.domain.errors import InsufficientCapacity, ResourceUnavailable
from bulkdeploy.placement.model import Disk, Ints
from bulkdeploy.scheduling.need import PlacementNeed, choose_planners
from bulkdeploy.scheduling.place import Planned, plan_kinds_in_zone
from bulkdeploy.scheduling.reasons import describe_unfit_destination, in_words
from bulkdeploy.services.deployments.deploying_calls import DeployingCall, Refusals
from bulkdeploy.services.deployments.shown_plans import shown_plan
from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.deployments.deployments import plan_hosts

Kinds = Mapping[PlacementNeed, Ints]
"""The VMs of each placement need, by their numbers in the call, ascending."""


def placement_need(configuration: Configuration, spec: DeploySpec) -> PlacementNeed:
    """Return the requirements of each VM of this specification for placement."""
    planner, offering_planner = choose_planners(
        configuration, bulk=spec.request.bulk, named=spec.request.planner, offering=spec.offering.planner
    )
    tag = {spec.template.tag} if spec.template.tag else set()
    return PlacementNeed(
        owner=spec.owner,
        zone_id=spec.zone.id,
        hypervisor=spec.hypervisor,
        cpu_number=spec.cpu_number,
        cpu_mhz=spec.cpu_mhz,
        memory_mib=spec.memory_mib,
        disks=tuple(Disk(disk.size_bytes, disk.storage_type, disk.tags) for disk in spec.disks),
        host_tags=spec.offering.host_tags | tag,
        affinity_group_ids=tuple(group.id for group in spec.affinity_groups),
        pod_id=spec.request.pod_id if spec.request.cluster_id is None and spec.request.host_id is None else None,
        cluster_id=spec.request.cluster_id if spec.request.host_id is None else None,
        host_id=spec.request.host_id,
        planner=planner,
        offering_planner=offering_planner,
    )


def plan(
    connection: Connection, configuration: Configuration, calls: Sequence[DeployingCall], refusals: Refusals
) -> None:
    """Plan the hosts and pools of VMs that start, and drop VMs that do not fit from their calls.

    Equal VMs of several calls are planned together, and the plan is divided among the calls.

    Raises:
        InsufficientCapacity: fewer VMs fit than the only call accepts.
        ResourceUnavailable: the zone has no pool.
        MustRunAlone: some of several calls must be rejected.
    """
    needs = [[placement_need(configuration, part.spec) for part in each.parts] for each in calls]
    kinds = [_kinds_of(each, wanted) for each, wanted in zip(calls, needs, strict=True)]
    planned = _plan_together(connection, configuration, calls, kinds)
    for number, each in enumerate(calls):
        if each.call.shared.start_vm:
            with refusals.of(number):
                each.planned = planned[number] or shown_plan(
                    connection, configuration, each.call, [(need, len(vms)) for need, vms in kinds[number].items()]
                )
                _leave_out_refused(connection, each, kinds[number])
    refusals.check()
    for each, wanted, of_call in zip(calls, needs, kinds, strict=True):
        _place_parts(each, wanted, of_call)
        each.drop_left_out()


def plan_of_none(connection: Connection, configuration: Configuration, each: DeployingCall) -> list[Planned]:
    """Return a plan without VMs, which describes the zone, for the dry run of a call that starts no VM."""
    needs = dict.fromkeys(placement_need(configuration, part.spec) for part in each.parts)
    return plan_kinds_in_zone(
        connection,
        configuration,
        [(need, 0) for need in needs],
        explain_host_ids=each.call.shared.explain_host_ids,
    )


def _kinds_of(each: DeployingCall, needs: Sequence[PlacementNeed]) -> Kinds:
    """Return the numbers of the kept VMs by their placement need, in the order of the parts."""
    found: dict[PlacementNeed, list[Ints]] = {}
    for part, need in zip(each.parts, needs, strict=True):
        found.setdefault(need, []).append(part.numbers[each.kept[part.numbers]])
    return {need: np.sort(np.concatenate(numbers)) for need, numbers in found.items()}


def _plan_together(
    connection: Connection, configuration: Configuration, calls: Sequence[DeployingCall], kinds: Sequence[Kinds]
) -> list[list[Planned]]:
    """Return the plan of each kind of each call.

    The result is empty for calls that start no VM or that apply a stored plan.
    """
    alike: dict[PlacementNeed, dict[int, int]] = {}
    for number, each in enumerate(calls):
        if each.call.shared.start_vm and each.call.shared.plan_index is None:
            for need, vms in kinds[number].items():
                alike.setdefault(need, {})[number] = len(vms)
    if not alike:
        return [[] for _ in calls]
    whole = plan_kinds_in_zone(
        connection,
        configuration,
        [(need, sum(counts.values())) for need, counts in alike.items()],
        explain_host_ids=calls[0].call.shared.explain_host_ids,
    )
    divided: dict[PlacementNeed, dict[int, Planned]] = {}
    for (need, counts), planned in zip(alike.items(), whole, strict=True):
        shares = planned.plan.split(list(counts.values()))
        divided[need] = {number: replace(planned, plan=share) for number, share in zip(counts, shares, strict=True)}
    return [
        [divided[need][number] for need in of_call if number in divided.get(need, ())]
        for number, of_call in enumerate(kinds)
    ]


def _leave_out_refused(connection: Connection, each: DeployingCall, kinds: Kinds) -> None:
    """Leave out the VMs for which no host was found, if the call accepts the number of remaining VMs."""
    call, planned = each.call, each.planned or ()
    placed = sum(kind.plan.placed for kind in planned)
    if placed < call.fewest and not planned[0].pool_limits:
        raise ResourceUnavailable(f"No primary storage pool is available in zone {each.parts[0].spec.zone.name}")
    closest = [kind.shortage.host_id for kind in planned if kind.shortage is not None]
    names = (
        {host_id: row["hostname"] for host_id, row in plan_hosts(connection, closest).items()} if closest else {}
    )
    for (need, vms), kind in zip(kinds.items(), planned, strict=True):
        if kind.plan.refused:
            error = InsufficientCapacity(
                requested=kind.plan.requested,
                fits=kind.plan.placed if kind.allocator else None,
                scope=_scope(each, need),
                why=_why_refused(connection, need, kind, _missing(kind, names)),
                with_affinity=bool(need.affinity_group_ids),
            )
            each.leave_out(vms[kind.plan.placed :], error)
    if placed < call.fewest:
        raise _refusal(connection, each, kinds, placed)


def _place_parts(each: DeployingCall, needs: Sequence[PlacementNeed], kinds: Kinds) -> None:
    """Set the plan of each part: the hosts and pools of its kept VMs, out of the plan of their kind."""
    if each.planned is None:
        return
    row, plans = np.zeros(len(each.kept), dtype=np.int64), {}
    for (need, vms), planned in zip(kinds.items(), each.planned, strict=True):
        plans[need] = planned.plan
        row[vms[: planned.plan.placed]] = np.arange(planned.plan.placed)
    for part, need in zip(each.parts, needs, strict=True):
        made = part.numbers[each.kept[part.numbers]]
        part.plan = plans[need] if len(made) == plans[need].placed else plans[need].of(row[made])


def _why_refused(connection: Connection, need: PlacementNeed, kind: Planned, missing: str = "") -> str:
    """Return a text with the reasons why VMs of a kind could not be placed."""
    unfit = describe_unfit_destination(connection, need.host_id, kind.plan.excluded)
    return _sentences(unfit, missing, *kind.allocator_texts, in_words(kind.plan.limiting))


def _refusal(connection: Connection, each: DeployingCall, kinds: Kinds, fits: int) -> InsufficientCapacity:
    """Return the error of a call whose VMs do not all fit.

    For a list, the error names the first VM that does not fit.
    """
    need, refused = next(
        (need, kind) for need, kind in zip(kinds, each.planned or (), strict=True) if kind.plan.refused
    )
    why, first = _why_refused(connection, need, refused), next(iter(kinds))
    if each.call.listed:
        number = min(each.errors)
        vm, error = each.named[number], each.errors[number]
        what = f"virtualmachines[{vm.entry}]" + (f" ({vm.name})" if vm.name else "")
        why = f"the first VM that does not fit is {what}"
        why += f": {error.why}" if isinstance(error, InsufficientCapacity) else ""
    return InsufficientCapacity(
        requested=each.call.count,
        fits=fits if refused.allocator else None,
        scope=_scope(each, first),
        why=why.rstrip("."),
        with_affinity=not each.call.listed and bool(first.affinity_group_ids),
    )


def _sentences(*parts: str) -> str:
    """Join the parts that are not empty as sentences, without the last full stop."""
    return ". ".join(part[0].upper() + part[1:].rstrip(".") for part in parts if part)


def _missing(planned: Planned, names: Mapping[int, str]) -> str:
    """Return a text with the resources that the host closest to fitting lacks.

    The text is empty if the placement failed for another reason than capacity.
    """
    short = planned.shortage
    if short is None or short.host_id not in names:
        return ""
    parts = [
        f"{amount} {unit}"
        for amount, unit in (
            (short.cpu_mhz, "MHz of CPU"),
            (short.memory_mib, "MiB of memory"),
            (short.storage_bytes, "bytes of storage for one disk"),
        )
        if amount
    ]
    return f"host {names[short.host_id]}, which comes closest, lacks {' and '.join(parts)}"


def _scope(each: DeployingCall, need: PlacementNeed) -> str:
    """Return a text that describes the part of the zone in which the VMs may be placed."""
    if need.host_id is not None:
        return "the pinned host"
    if need.cluster_id is not None:
        return "the pinned cluster"
    if need.pod_id is not None:
        return "the pinned pod"
    return f"zone {each.parts[0].spec.zone.name}"
