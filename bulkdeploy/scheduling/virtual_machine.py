"""One existing VM as placement sees it: its sizes, its rules, and what its volumes bind it to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.topology import PoolScope, StorageType
from bulkdeploy.placement.model import Disk
from bulkdeploy.scheduling.need import PlacementNeed, choose_planners
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configuration import Configuration
from bulkdeploy.store.ledger.placed_vms import (
    pod_bound_by_address,
    read_vm,
    read_vm_groups,
    read_vm_volumes,
    vm_of_deployment,
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
    configuration: Configuration,
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
    need = replace(need_of(connection, configuration, row, unplaced), vm_id=vm_id)
    bound_pod_id = pod_bound_by_address(connection, vm_id)
    if bound_pod_id is not None:
        if pod_id not in (None, bound_pod_id):
            return None
        pod_id = bound_pod_id
    bound = _bind(need, volumes, pod_id=pod_id, cluster_id=cluster_id, host_id=host_id)
    if bound is None:
        return None
    return VmToPlace(vm_id, row.uuid, bound, tuple(volume.uuid for volume in unplaced), row.last_host_id)


def read_deployment_need(connection: Connection, configuration: Configuration, deployment_id: int) -> PlacementNeed:
    """What one more VM of a deployment would need: as one that it made, and by the call's pins."""
    row = read_vm(connection, vm_of_deployment(connection, deployment_id))
    pins = {name: row.config.get(name) for name in ("pod_id", "cluster_id", "host_id")}
    return replace(need_of(connection, configuration, row, read_vm_volumes(connection, row.id)), **pins)


def need_of(
    connection: Connection, configuration: Configuration, vm: Row[Any], volumes: Sequence[Row[Any]]
) -> PlacementNeed:
    """What a VM needs, by its row, with a pool for each of these volumes; free of what binds it to a place."""
    planner, offering_planner = choose_planners(
        configuration, bulk=vm.bulk, named=vm.config.get("planner"), offering=vm.deployment_planner
    )
    return PlacementNeed(
        owner=owners_by_id(connection, [vm.account_id])[vm.account_id],
        zone_id=vm.zone_id,
        hypervisor=vm.hypervisor,
        cpu_number=vm.cpu_number,
        cpu_mhz=vm.cpu_mhz,
        memory_mib=vm.memory_mib,
        disks=tuple(_disk(volume, vm) for volume in volumes),
        host_tags=frozenset(vm.host_tags) | ({vm.template_tag} if vm.template_tag else set()),
        affinity_group_ids=read_vm_groups(connection, vm.id),
        planner=planner,
        offering_planner=offering_planner,
    )


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
