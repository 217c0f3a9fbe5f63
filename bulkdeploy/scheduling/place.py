"""Snapshot -> plan -> claim, inside one transaction of the caller.

``plan_in_zone`` decides; ``claim_plan`` writes the decision into the ledger, where the room is
checked again. A ``Place`` is the plan of one VM that exists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from bulkdeploy import metrics
from bulkdeploy.placement.capacity import HostAnswers
from bulkdeploy.placement.catalog import PlannerNotInstalled
from bulkdeploy.placement.hosts import HOST_ALGORITHMS
from bulkdeploy.placement.model import HostAnswer, PlacementRequest, Plan, ZoneSnapshot
from bulkdeploy.placement.planner import plan
from bulkdeploy.placement.rules import cluster_threshold
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.need import PlacementNeed, placement_request
from bulkdeploy.scheduling.reasons import in_words
from bulkdeploy.scheduling.virtual_machine import VmToPlace, read_vm_to_place
from bulkdeploy.store.configuration.configuration import Configuration, read_configuration
from bulkdeploy.store.ledger.ledger import NO_THRESHOLDS, Thresholds, claim_hosts, claim_pools
from bulkdeploy.store.ledger.placed_vms import write_place, write_pools
from bulkdeploy.store.ledger.snapshot import read_snapshot
from bulkdeploy.store.ledger.zone_locks import keep_zone_rules


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the request it answers, and the limits that the claim checks again.

    ``pool_limits``: bytes that each pool may promise. ``thresholds``: of the clusters that the plan uses, where
    they bind. ``hosts``: what there is to say of hosts that were asked about.
    """

    plan: Plan
    request: PlacementRequest
    pool_limits: dict[int, int]
    thresholds: Thresholds
    hosts: Sequence[HostAnswer] = field(default=())


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Why a VM can go nowhere; ``excluded``: hosts by the reason of the rule that excluded them."""

    why: str
    excluded: Mapping[str, int] = field(default_factory=dict)


BOUND = NoPlace("its volumes or its address bind it to where it is")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one VM is to go, by its need (the VM's own, or narrowed by the call)."""

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
) -> Planned:
    """Where ``count`` alike VMs would go now; nothing is claimed.

    Raises:
        PlannerNotInstalled: the need names a planner that is not there.
    """
    with metrics.PLAN_SECONDS.time():
        snapshot, request = zone_as_seen(
            connection, configuration, need, count=count, seed=seed, avoid_host_ids=avoid_host_ids
        )
        limits = dict(zip(snapshot.pools.id.tolist(), snapshot.pools.limit.tolist(), strict=True))
        catalog = placement_catalog()
        hosts = HostAnswers(snapshot, request, catalog).of(explain_host_ids) if explain_host_ids else ()
        made = plan(snapshot, request, catalog)
        return Planned(made, request, limits, _thresholds(snapshot, request, made), hosts)


def _thresholds(snapshot: ZoneSnapshot, request: PlacementRequest, made: Plan) -> Thresholds:
    """Those of the plan's clusters, where they bind what is placed."""
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
    seed: int,
    avoid_host_ids: frozenset[int] = frozenset(),
    lock: bool = True,
) -> tuple[ZoneSnapshot, PlacementRequest]:
    """The zone and the request, as the planner takes them; ``lock``: affinity groups are locked for a claim."""
    request = placement_request(
        connection, configuration, need, count=count, seed=seed, avoid_host_ids=avoid_host_ids, lock=lock
    )
    catalog = placement_catalog()
    planners = {need.planner, need.offering_planner or need.planner}
    snapshot = read_snapshot(
        connection,
        need.zone_id,
        need.owner,
        configuration,
        with_tags=bool(need.host_tags),
        with_local_storage=need.needs_local_storage,
        with_owner_hosts=HOST_ALGORITHMS[request.host_algorithm].needs_owner_vms
        or any(catalog.strategy(planner).needs_owner_vms for planner in planners),
    )
    return snapshot, request


def claim_plan(
    connection: Connection,
    planned: Planned,
    need: PlacementNeed,
    vm_uuids: Sequence[UUID | str],
    volume_uuids: Sequence[Sequence[UUID | str]],
) -> None:
    """Write the plan's claims: a host per VM, and per disk a pool per volume.

    ``volume_uuids`` has one sequence per disk, in the order of ``need.disks``, one entry per VM.

    Raises:
        TransactionConflict: somebody took the room since the snapshot; repeat the whole transaction.
    """
    claim_hosts(
        connection,
        planned.plan.host_ids,
        vm_uuids,
        account_id=need.owner.account_id,
        cpu_mhz=need.cpu_number * need.cpu_mhz,
        memory_mib=need.memory_mib,
        thresholds=planned.thresholds,
    )
    if not need.disks:
        return
    pools: list[int] = []
    sizes: list[int] = []
    volumes: list[UUID | str] = []
    for position, disk in enumerate(need.disks):
        pools += planned.plan.pool_ids[:, position].tolist()
        sizes += [disk.size_bytes] * planned.plan.placed
        volumes += volume_uuids[position]
    claim_pools(connection, planned.pool_limits, pools, sizes, volumes)


def plan_stopped_vm(
    connection: Connection,
    vm_id: int,
    *,
    pod_id: int | None = None,
    cluster_id: int | None = None,
    host_id: int | None = None,
    planner: str | None = None,
    last_host_first: bool = False,
    avoid_host_ids: frozenset[int] = frozenset(),
) -> Place | NoPlace:
    """Where a VM that holds no host would go now, or why nowhere. Nothing is claimed.

    Volumes that exist bind the VM to where their pools can be reached; the caller's pins narrow it.
    ``planner`` is used instead of the VM's own; ``last_host_first``: others only where that has no room.
    """
    configuration = read_configuration(connection)
    vm = read_vm_to_place(connection, configuration, vm_id, pod_id=pod_id, cluster_id=cluster_id, host_id=host_id)
    if vm is None:
        return BOUND
    need = vm.need if planner is None else replace(vm.need, planner=planner, offering_planner=None)
    needs = [need]
    if last_host_first and need.host_id is None and vm.last_host_id is not None:
        needs.insert(0, replace(need, host_id=vm.last_host_id))
    place: Place | NoPlace = BOUND
    for wanted in needs:
        place = find_place(connection, configuration, vm, wanted, avoid_host_ids)
        if isinstance(place, Place):
            return place
    return place


def find_place(
    connection: Connection,
    configuration: Configuration,
    vm: VmToPlace,
    need: PlacementNeed,
    avoid_host_ids: frozenset[int],
) -> Place | NoPlace:
    """Where an existing VM would go now by a need of its, or why nowhere. Nothing is claimed."""
    keep_zone_rules(connection, need.zone_id)
    try:
        planned = plan_in_zone(connection, configuration, need, count=1, seed=vm.id, avoid_host_ids=avoid_host_ids)
    except PlannerNotInstalled as missing:
        return NoPlace(str(missing))
    if planned.plan.placed:
        return Place(vm, need, planned)
    words = ("no host has room for it", in_words(planned.plan.excluded))
    return NoPlace("; ".join(word for word in words if word), planned.plan.excluded)


def claim_place(connection: Connection, place: Place) -> None:
    """Claim a VM's place, and write it into the VM's row and its new volumes' rows.

    Raises:
        TransactionConflict: repeat the whole transaction.
    """
    vm, placed = place.vm, place.planned.plan
    claim_plan(connection, place.planned, place.need, [vm.uuid], [[uuid] for uuid in vm.unplaced_volumes])
    write_place(
        connection,
        vm.id,
        host_id=int(placed.host_ids[0]),
        cluster_id=int(placed.cluster_ids[0]),
        pod_id=int(placed.pod_ids[0]),
    )
    if vm.unplaced_volumes:
        write_pools(connection, vm.unplaced_volumes, np.ravel(placed.pool_ids).tolist())
