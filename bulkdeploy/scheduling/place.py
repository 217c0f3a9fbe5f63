"""Snapshot -> plan -> claim, inside one transaction of the caller.

``plan_in_zone`` decides; ``claim_plan`` writes the decision into the ledger, where the room is
checked again. A ``Place`` is the plan of one VM that exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from bulkdeploy import meters
from bulkdeploy.placement.model import PlacementRequest, Plan, ZoneSnapshot
from bulkdeploy.placement.planner import plan
from bulkdeploy.scheduling.need import PlacementNeed, placement_request
from bulkdeploy.scheduling.virtual_machine import VmToPlace, read_vm_to_place
from bulkdeploy.store.configuration import Configuration, read_configuration
from bulkdeploy.store.ledger import claim_hosts, claim_pools
from bulkdeploy.store.placed_vms import write_place, write_pools
from bulkdeploy.store.snapshot import read_snapshot

HOST_ALGORITHMS_THAT_COUNT_OWNERS = frozenset(
    {"userdispersing", "userconcentratedpod_random", "userconcentratedpod_firstfit"}
)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the seed it was made with, and the bytes that each pool may promise (for the re-check)."""

    plan: Plan
    seed: int
    pool_limits: dict[int, int]


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
) -> Planned:
    """Where ``count`` alike VMs would go now; nothing is claimed."""
    with meters.PLAN_SECONDS.time():
        snapshot, request = zone_as_seen(
            connection, configuration, need, count=count, seed=seed, avoid_host_ids=avoid_host_ids
        )
        limits = dict(zip(snapshot.pools.id.tolist(), snapshot.pools.limit.tolist(), strict=True))
        return Planned(plan(snapshot, request), seed, limits)


def zone_as_seen(
    connection: Connection,
    configuration: Configuration,
    need: PlacementNeed,
    *,
    count: int,
    seed: int,
    avoid_host_ids: frozenset[int],
) -> tuple[ZoneSnapshot, PlacementRequest]:
    """The zone and the request, as the planner takes them; affinity groups are locked."""
    request = placement_request(
        connection, configuration, need, count=count, seed=seed, avoid_host_ids=avoid_host_ids
    )
    snapshot = read_snapshot(
        connection,
        need.zone_id,
        need.owner,
        configuration,
        with_tags=bool(need.host_tags),
        with_local_storage=need.needs_local_storage,
        with_owner_hosts=request.host_algorithm in HOST_ALGORITHMS_THAT_COUNT_OWNERS
        or need.planner == "ImplicitDedicationPlanner",
    )
    if need.is_move:
        endless = np.full(len(snapshot.clusters.id), np.inf)
        clusters = replace(snapshot.clusters, cpu_threshold=endless, memory_threshold=endless)
        snapshot = replace(snapshot, clusters=clusters)
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
) -> Place | None:
    """Where a VM that holds no host would go now; None: there is no room. Nothing is claimed.

    Volumes that exist bind the VM to where their pools can be reached; the caller's pins narrow it.
    ``planner`` is used instead of the VM's own; ``last_host_first``: others only where that has no room.
    """
    configuration = read_configuration(connection)
    vm = read_vm_to_place(connection, vm_id, pod_id=pod_id, cluster_id=cluster_id, host_id=host_id)
    if vm is None:
        return None
    need = vm.need if planner is None else replace(vm.need, planner=planner)
    needs = [need]
    if last_host_first and need.host_id is None and vm.last_host_id is not None:
        needs.insert(0, replace(need, host_id=vm.last_host_id))
    for wanted in needs:
        planned = plan_in_zone(
            connection, configuration, wanted, count=1, seed=vm_id, avoid_host_ids=avoid_host_ids
        )
        if planned.plan.placed:
            return Place(vm, wanted, planned)
    return None


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
