"""Snapshot, plan and claim inside one transaction of the caller (one file: every placement uses it).

``plan_kinds_in_zone`` makes the plans. The ledger checks the capacity again when a plan is claimed. A ``Place`` is
the plan of one existing VM, and ``claim_place`` claims it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.placement.capacity import HostAnswers
from bulkdeploy.placement.catalog import PlannerNotInstalled
from bulkdeploy.placement.claimed_plans import add_members, after, with_members
from bulkdeploy.placement.hosts import HOST_ALGORITHMS
from bulkdeploy.placement.model import HostAnswer, PlacementRequest, Plan, ZoneSnapshot
from bulkdeploy.placement.rules import cluster_threshold
from bulkdeploy.placement.shortage import Shortage, shortage
from bulkdeploy.placement.standing import Lacking, Places, stands
from bulkdeploy.scheduling.allocators import BUILTIN, allocate
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.need import AffinityMembers, PlacementNeed, placement_request
from bulkdeploy.scheduling.reasons import describe_unfit_destination, in_words
from bulkdeploy.scheduling.virtual_machine import VmToPlace, read_vm_to_place
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.ledger.ledger import NO_THRESHOLDS, Thresholds, claim_hosts, claim_pools
from bulkdeploy.store.ledger.placed_vms import lock_affinity_groups, write_places, write_pools
from bulkdeploy.store.ledger.snapshot import read_snapshot, seen_by_another
from bulkdeploy.store.ledger.zone_locks import keep_zone_rules
from bulkdeploy.telemetry import metrics
from bulkdeploy.telemetry.tracing import span


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with its request and with the limits that the claim checks again.

    ``pool_limits`` is the claimable size of each pool in bytes. ``thresholds`` are the thresholds of the plan's
    clusters, if they apply. ``hosts`` has the results of the placement rules for the hosts that the call asked
    about. ``shortage`` is the missing capacity of a rejected VM. ``allocator`` chose the hosts; ``allocator_texts``
    are the reasons why other allocators gave no usable answer.
    """

    plan: Plan
    request: PlacementRequest
    pool_limits: dict[int, int]
    thresholds: Thresholds
    hosts: Sequence[HostAnswer] = field(default=())
    shortage: Shortage | None = None
    allocator: str = BUILTIN
    allocator_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoPlace:
    """The reason why there is no host for a VM.

    ``excluded`` counts the hosts by the reason of the rule that excluded them.
    """

    why: str
    excluded: Mapping[str, int] = field(default_factory=dict)


BOUND = NoPlace("its volumes or its address bind it to where it is")


@dataclass(frozen=True, slots=True)
class Place:
    """The planned host and pools of one VM, with its need, which the call may have narrowed."""

    vm: VmToPlace
    need: PlacementNeed
    planned: Planned


def plan_in_zone(
    connection: Connection,
    configuration: Configuration,
    need: PlacementNeed,
    *,
    count: int,
    seed: int,
    avoid_host_ids: frozenset[int] = frozenset(),
    explain_host_ids: Sequence[int] = (),
    vm_uuid: UUID | None = None,
) -> Planned:
    """Return where ``count`` equal VMs would be placed now. Nothing is claimed.

    ``vm_uuid`` is given if the need is that of an existing VM.

    Raises:
        PlannerNotInstalled: the need names a planner that is not installed.
    """
    (planned,) = plan_kinds_in_zone(
        connection,
        configuration,
        [(need, count)],
        seed=seed,
        avoid_host_ids=avoid_host_ids,
        explain_host_ids=explain_host_ids,
        vm_uuid=vm_uuid,
    )
    return planned


def plan_kinds_in_zone(
    connection: Connection,
    configuration: Configuration,
    kinds: Sequence[tuple[PlacementNeed, int]],
    *,
    seed: int | None = None,
    avoid_host_ids: frozenset[int] = frozenset(),
    explain_host_ids: Sequence[int] = (),
    vm_uuid: UUID | None = None,
) -> list[Planned]:
    """Return the plans for VMs of several kinds in one zone, planned together. Claims nothing.

    Several owners are planned one after the other, including the claims of the plans before. If ``seed`` is None,
    it follows from the state of the zone, so a call places its VMs where remaining capacity planned them.

    Raises:
        PlannerNotInstalled: a need names a planner that is not installed.
    """
    by_owner: dict[int, list[int]] = {}
    for at, (need, _) in enumerate(kinds):
        by_owner.setdefault(need.owner.account_id, []).append(at)
    planned: dict[int, Planned] = {}
    with (
        metrics.PLAN_SECONDS.time(),
        span("plan", facts=lambda: {"bulkdeploy.vms": sum(map(itemgetter(1), kinds))}),
    ):
        left: ZoneSnapshot | None = None
        members: dict[int, Mapping[int, int]] = {}
        for of_owner in by_owner.values():
            snapshot, requests = zone_as_seen_by(
                connection,
                configuration,
                [kinds[at] for at in of_owner],
                seed=seed,
                avoid_host_ids=avoid_host_ids,
                beside=[need for at, (need, _) in enumerate(kinds) if at not in of_owner],
                known=left,
            )
            requests = [with_members(request, members) for request in requests]
            need = kinds[of_owner[0]][0]
            made = _planned(connection, configuration, need, snapshot, requests, explain_host_ids, vm_uuid)
            planned.update(zip(of_owner, made, strict=True))
            left = snapshot
            for each in made if len(planned) < len(kinds) else ():
                left = after(left, each.request, each.plan)
                add_members(with_members(each.request, members), each.plan, members)
    return [planned[at] for at in range(len(kinds))]


def _planned(
    connection: Connection,
    configuration: Configuration,
    first: PlacementNeed,
    snapshot: ZoneSnapshot,
    requests: Sequence[PlacementRequest],
    explain_host_ids: Sequence[int],
    vm_uuid: UUID | None,
) -> list[Planned]:
    """Return the plans of one owner's requests. ``first`` is the need of the first request."""
    limits = dict(zip(snapshot.pools.id.tolist(), snapshot.pools.limit.tolist(), strict=True))
    catalog = placement_catalog()
    chosen = allocate(
        connection,
        configuration,
        first.zone_id,
        snapshot,
        requests,
        catalog,
        account_id=first.owner.account_id,
        vm_uuid=vm_uuid,
    )
    made, by_planner = chosen.made, chosen.allocator == BUILTIN
    return [
        Planned(
            part,
            request,
            limits,
            thresholds_of(snapshot, request, part),
            HostAnswers(snapshot, request, catalog).of(explain_host_ids) if explain_host_ids else (),
            shortage(made.left, request, catalog) if part.refused and by_planner else None,
            chosen.allocator,
            chosen.allocator_texts,
        )
        for request, part in zip(requests, made.plans, strict=True)
    ]


def apply_in_zone(
    connection: Connection,
    configuration: Configuration,
    kinds: Sequence[tuple[PlacementNeed, Places]],
    counts: Sequence[int],
) -> list[Planned] | list[Lacking]:
    """Return plans that use the hosts and pools of an earlier plan, or the list of missing capacity.

    Raises:
        PlannerNotInstalled: a need names a planner that is not installed.
    """
    wanted = [(need, count) for (need, _), count in zip(kinds, counts, strict=True)]
    snapshot, requests = zone_as_seen_by(connection, configuration, wanted, seed=0)
    limits = dict(zip(snapshot.pools.id.tolist(), snapshot.pools.limit.tolist(), strict=True))
    planned = []
    for request, (_, places) in zip(requests, kinds, strict=True):
        made = stands(snapshot, request, places, placement_catalog())
        if isinstance(made, list):
            return made
        planned.append(Planned(made, request, limits, thresholds_of(snapshot, request, made)))
        snapshot = after(snapshot, request, made)
    return planned


def thresholds_of(snapshot: ZoneSnapshot, request: PlacementRequest, made: Plan) -> Thresholds:
    """Return the thresholds of the plan's clusters. They are empty if thresholds do not apply to the request."""
    if request.purpose not in cluster_threshold.RULE.purposes:
        return NO_THRESHOLDS
    clusters = snapshot.clusters
    every = Thresholds(clusters.id, clusters.cpu_threshold, clusters.memory_threshold)
    return every.of(np.unique(made.cluster_ids))


def zone_as_seen(
    connection: Connection,
    configuration: Configuration,
    need: PlacementNeed,
    *,
    count: int,
    seed: int | None,
    avoid_host_ids: frozenset[int] = frozenset(),
    lock: bool = True,
) -> tuple[ZoneSnapshot, PlacementRequest]:
    """Return the snapshot of the zone and the request in the form that the planner needs.

    With ``lock``, affinity groups are locked for a claim. If ``seed`` is None, the seed is computed from the zone.
    """
    snapshot, (request,) = zone_as_seen_by(
        connection, configuration, [(need, count)], seed=seed, avoid_host_ids=avoid_host_ids, lock=lock
    )
    return snapshot, request


def zone_as_seen_by(
    connection: Connection,
    configuration: Configuration,
    kinds: Sequence[tuple[PlacementNeed, int]],
    *,
    seed: int | None,
    avoid_host_ids: frozenset[int] = frozenset(),
    lock: bool = True,
    beside: Sequence[PlacementNeed] = (),
    known: ZoneSnapshot | None = None,
    members: AffinityMembers | None = None,
) -> tuple[ZoneSnapshot, list[PlacementRequest]]:
    """Return the snapshot of the zone for an owner, and one request for each of the owner's kinds of VMs.

    All affinity groups are locked in one order first. ``beside`` are needs of other owners that are planned in the
    same transaction. ``known`` is the snapshot that was read for another owner. ``members`` are the affinity groups
    if they were read already.
    """
    needs = [need for need, _ in kinds]
    everybodys = [*needs, *beside]
    groups = sorted({group for need in everybodys for group in need.affinity_group_ids})
    if lock and len(everybodys) > 1 and groups:
        lock_affinity_groups(connection, groups)
    requests = [
        placement_request(
            connection,
            configuration,
            need,
            count=count,
            seed=seed or 0,
            avoid_host_ids=avoid_host_ids,
            lock=lock,
            members=members,
        )
        for need, count in kinds
    ]
    catalog = placement_catalog()
    planners = {planner for need in needs for planner in (need.planner, need.offering_planner) if planner}
    zone_id, owner = needs[0].zone_id, needs[0].owner
    with_owner_hosts = any(HOST_ALGORITHMS[request.host_algorithm].needs_owner_vms for request in requests) or any(
        catalog.strategy(planner).needs_owner_vms for planner in planners
    )
    if known is not None:
        snapshot = seen_by_another(connection, known, zone_id, owner, with_owner_hosts=with_owner_hosts)
    else:
        snapshot = read_snapshot(
            connection,
            zone_id,
            owner,
            configuration,
            with_tags=any(need.host_tags for need in everybodys),
            with_local_storage=any(need.needs_local_storage for need in everybodys),
            with_owner_hosts=with_owner_hosts,
        )
    if seed is None:
        seed = snapshot.seed
        requests = [replace(request, seed=seed) for request in requests]
    return snapshot, requests


def plan_stopped_vm(
    connection: Connection,
    vm_id: int,
    *,
    pod_id: int | None = None,
    cluster_id: int | None = None,
    host_id: int | None = None,
    planner: str | None = None,
    last_host_first: bool = False,
    first_host_id: int | None = None,
    avoid_host_ids: frozenset[int] = frozenset(),
) -> Place | NoPlace:
    """Plan a VM that has no claim on a host. Return its host and pools, or the reason why there are none.

    Nothing is claimed. Existing volumes bind the VM to the hosts that can access their pools; the caller's pins
    narrow the choice further. ``planner`` replaces the VM's own planner. ``first_host_id``, or with
    ``last_host_first`` the VM's last host, is tried first, and other hosts only if that host has no capacity.
    """
    configuration = read_configuration(connection)
    vm = read_vm_to_place(connection, configuration, vm_id, pod_id=pod_id, cluster_id=cluster_id, host_id=host_id)
    if vm is None:
        return BOUND
    need = vm.need if planner is None else replace(vm.need, planner=planner, offering_planner=None)
    first = vm.last_host_id if first_host_id is None and last_host_first else first_host_id
    place: Place | NoPlace = BOUND
    for wanted in needs_in_order(need, first):
        place = find_place(connection, configuration, vm, wanted, avoid_host_ids)
        if isinstance(place, Place):
            return place
    return place


def needs_in_order(need: PlacementNeed, first_host_id: int | None) -> list[PlacementNeed]:
    """Return the need pinned to ``first_host_id``, followed by the need itself.

    Returns only the need itself if ``first_host_id`` is None or the need is pinned to a host already.
    """
    if first_host_id is None or need.host_id is not None:
        return [need]
    return [replace(need, host_id=first_host_id), need]


def find_place(
    connection: Connection,
    configuration: Configuration,
    vm: VmToPlace,
    need: PlacementNeed,
    avoid_host_ids: frozenset[int],
) -> Place | NoPlace:
    """Plan an existing VM with this need. Return its host and pools, or the reason why there are none.

    Nothing is claimed.
    """
    keep_zone_rules(connection, need.zone_id)
    try:
        planned = plan_in_zone(
            connection,
            configuration,
            need,
            count=1,
            seed=vm.id,
            avoid_host_ids=avoid_host_ids,
            vm_uuid=vm.uuid,
        )
    except PlannerNotInstalled as missing:
        return NoPlace(str(missing))
    if planned.plan.placed:
        return Place(vm, need, planned)
    unfit = describe_unfit_destination(connection, need.host_id, planned.plan.excluded)
    return no_place(planned.plan, (unfit, *planned.allocator_texts))


def no_place(plan: Plan, allocator_texts: Sequence[str] = ()) -> NoPlace:
    """Return the reasons why a plan places no VM. ``allocator_texts`` has the reasons of allocators."""
    words = ("no host has room for the VM", *allocator_texts, in_words(plan.excluded))
    return NoPlace("; ".join(word for word in words if word), plan.excluded)


def claim_place(connection: Connection, place: Place) -> None:
    """Claim a VM's planned host and pools, and write them into the rows of the VM and of its new volumes.

    Raises:
        TransactionConflict: the capacity was claimed by another transaction; the whole transaction must be
            repeated.
    """
    vm, need, planned = place.vm, place.need, place.planned
    placed, pool_ids = planned.plan, np.ravel(planned.plan.pool_ids).tolist()
    claim_hosts(
        connection,
        placed.host_ids,
        [vm.uuid],
        account_id=need.owner.account_id,
        cpu_mhz=need.cpu_number * need.cpu_mhz,
        memory_mib=need.memory_mib,
        thresholds=planned.thresholds,
    )
    if pool_ids:
        sizes = [disk.size_bytes for disk in need.disks]
        claim_pools(connection, planned.pool_limits, pool_ids, sizes, vm.unplaced_volumes)
    write_places(
        connection,
        [vm.id],
        host_ids=placed.host_ids.tolist(),
        cluster_ids=placed.cluster_ids.tolist(),
        pod_ids=placed.pod_ids.tolist(),
    )
    if vm.unplaced_volumes:
        write_pools(connection, vm.unplaced_volumes, pool_ids)
