"""One existing VM as placement sees it: its sizes, its rules, and what its volumes bind it to."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.topology import PoolScope, StorageType
from bulkdeploy.placement.model import Disk
from bulkdeploy.scheduling.need import PlacementNeed
from bulkdeploy.store.owners import owners_by_id
from bulkdeploy.store.placed_vms import (
    pod_bound_by_address,
    read_vm,
    read_vm_groups,
    read_vm_volumes,
)


@dataclass(frozen=True, slots=True)
class VmToPlace:
    """A VM and its need; ``unplaced_volumes`` are the volumes (uuids) that get a pool, as in ``need.disks``."""

    id: int
    uuid: UUID
    need: PlacementNeed
    unplaced_volumes: tuple[UUID, ...]
    last_host_id: int | None


def read_vm_to_place(
    connection: Connection,
    vm_id: int,
    *,
    pod_id: int | None = None,
    cluster_id: int | None = None,
    host_id: int | None = None,
) -> VmToPlace | None:
    """The VM with its pins narrowed by volumes and addresses that exist; None when these disagree."""
    row = read_vm(connection, vm_id)
    volumes = read_vm_volumes(connection, vm_id)
    unplaced = [volume for volume in volumes if volume.scope is None]
    need = PlacementNeed(
        owner=owners_by_id(connection, [row.account_id])[row.account_id],
        zone_id=row.zone_id,
        hypervisor=row.hypervisor,
        cpu_number=row.cpu_number,
        cpu_mhz=row.cpu_mhz,
        memory_mib=row.memory_mib,
        disks=tuple(_disk(volume, row) for volume in unplaced),
        host_tags=frozenset(row.host_tags) | ({row.template_tag} if row.template_tag else set()),
        affinity_group_ids=read_vm_groups(connection, vm_id),
        planner=_planner(row),
        vm_id=vm_id,
    )
    bound_pod_id = pod_bound_by_address(connection, vm_id)
    if bound_pod_id is not None:
        if pod_id not in (None, bound_pod_id):
            return None
        pod_id = bound_pod_id
    bound = _bind(need, volumes, pod_id=pod_id, cluster_id=cluster_id, host_id=host_id)
    if bound is None:
        return None
    return VmToPlace(vm_id, row.uuid, bound, tuple(volume.uuid for volume in unplaced), row.last_host_id)


def _planner(row: Row[Any]) -> str | None:
    """The planner its deploy call used; None is count dispersion."""
    named: str | None = row.config.get("planner") or row.deployment_planner
    return named if named is not None or row.bulk else "FirstFitPlanner"


def _disk(volume: Row[Any], vm: Row[Any]) -> Disk:
    """A volume's need of a pool: by its disk offering, or by the service offering where it has none."""
    source = vm if volume.storage_type is None else volume
    return Disk(volume.size_bytes, StorageType(source.storage_type), frozenset(source.storage_tags))


def _bind(
    need: PlacementNeed,
    volumes: list[Row[Any]],
    *,
    pod_id: int | None,
    cluster_id: int | None,
    host_id: int | None,
) -> PlacementNeed | None:
    """Pins of the call and of the volumes' pools together; a clash is None."""
    hosts = {volume.host_id for volume in volumes if volume.scope == PoolScope.HOST}
    clusters = {volume.cluster_id for volume in volumes if volume.scope == PoolScope.CLUSTER}
    if host_id is not None:
        hosts.add(host_id)
    if cluster_id is not None:
        clusters.add(cluster_id)
    if len(hosts) > 1 or len(clusters) > 1:
        return None
    return replace(
        need,
        host_id=hosts.pop() if hosts else None,
        cluster_id=clusters.pop() if clusters else None,
        pod_id=pod_id,
    )
