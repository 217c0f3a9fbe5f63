"""Existing VMs for placement: their sizes, their rules, and the hosts and clusters to which volumes bind them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.domain.infrastructure.topology import PoolScope, StorageType
from bulkdeploy.placement.model import Disk
from bulkdeploy.scheduling.need import PlacementNeed, choose_planners
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.ledger.placed_vms import (
    pods_bound_by_address,
    read_vm,
    read_vm_groups,
    read_vm_volumes,
    read_vms,
    vm_of_deployment,
)


@dataclass(frozen=True, slots=True)
class VmToPlace:
    """An existing VM and its need. ``unplaced_volumes`` are the uuids of the volumes that need a pool."""

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
    """Return a VM with its pins narrowed to the hosts that its existing volumes and addresses allow.

    Returns None if volumes and addresses allow no common host.
    """
    (vm,) = read_vms_to_place(
        connection, configuration, [vm_id], pod_id=pod_id, cluster_id=cluster_id, host_id=host_id
    ).values()
    return vm


def read_vms_to_place(
    connection: Connection,
    configuration: Configuration,
    vm_ids: Sequence[int],
    *,
    pod_id: int | None = None,
    cluster_id: int | None = None,
    host_id: int | None = None,
) -> dict[int, VmToPlace | None]:
    """Return each of these VMs as ``read_vm_to_place`` does, with a constant number of statements."""
    vms = read_vms(connection, vm_ids)
    volumes = read_vm_volumes(connection, vm_ids)
    groups = read_vm_groups(connection, vm_ids)
    pods = pods_bound_by_address(connection, vm_ids)
    owners = owners_by_id(connection, {vm.account_id for vm in vms.values()})
    found: dict[int, VmToPlace | None] = {}
    for vm_id in vm_ids:
        vm, bound_pod_id = vms[vm_id], pods.get(vm_id)
        unplaced = [volume for volume in volumes[vm_id] if volume.scope is None]
        need = need_of(configuration, vm, owners[vm.account_id], unplaced, groups[vm_id])
        disagree = None not in (pod_id, bound_pod_id) and pod_id != bound_pod_id
        pod = pod_id if bound_pod_id is None else bound_pod_id
        bound = _bind(need, vm_id, volumes[vm_id], pod_id=pod, cluster_id=cluster_id, host_id=host_id)
        found[vm_id] = None
        if bound is not None and not disagree:
            new_volumes = tuple(volume.uuid for volume in unplaced)
            found[vm_id] = VmToPlace(vm_id, vm.uuid, bound, new_volumes, vm.last_host_id)
    return found


def read_deployment_need(connection: Connection, configuration: Configuration, deployment_id: int) -> PlacementNeed:
    """Return the need of one more VM of a deployment: the need of an existing VM with the pins of the call."""
    row = read_vm(connection, vm_of_deployment(connection, deployment_id))
    pins = {name: row.config.get(name) for name in ("pod_id", "cluster_id", "host_id")}
    volumes = read_vm_volumes(connection, [row.id])[row.id]
    groups = read_vm_groups(connection, [row.id])[row.id]
    owner = owners_by_id(connection, [row.account_id])[row.account_id]
    return replace(need_of(configuration, row, owner, volumes, groups), **pins)


def need_of(
    configuration: Configuration,
    vm: Row[Any],
    owner: Owner,
    volumes: Sequence[Row[Any]],
    affinity_group_ids: tuple[int, ...],
) -> PlacementNeed:
    """Return the need of a VM from its row, with a disk for each of these volumes.

    The need is not restricted by existing volumes and addresses.
    """
    planner, offering_planner = choose_planners(
        configuration, bulk=vm.bulk, named=vm.config.get("planner"), offering=vm.deployment_planner
    )
    return PlacementNeed(
        owner=owner,
        zone_id=vm.zone_id,
        hypervisor=vm.hypervisor,
        cpu_number=vm.cpu_number,
        cpu_mhz=vm.cpu_mhz,
        memory_mib=vm.memory_mib,
        disks=tuple(_disk(volume, vm) for volume in volumes),
        host_tags=frozenset(vm.host_tags) | ({vm.template_tag} if vm.template_tag else set()),
        affinity_group_ids=affinity_group_ids,
        planner=planner,
        offering_planner=offering_planner,
    )


def _disk(volume: Row[Any], vm: Row[Any]) -> Disk:
    """Return the storage need of a volume, from its disk offering or else from the service offering."""
    source = vm if volume.storage_type is None else volume
    return Disk(volume.size_bytes, StorageType(source.storage_type), frozenset(source.storage_tags))


def _bind(
    need: PlacementNeed,
    vm_id: int,
    volumes: Sequence[Row[Any]],
    *,
    pod_id: int | None,
    cluster_id: int | None,
    host_id: int | None,
) -> PlacementNeed | None:
    """Return the need of one VM, with the pins of the call and of its volumes, or None if the pins contradict."""
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
        vm_id=vm_id,
        host_id=hosts.pop() if hosts else None,
        cluster_id=clusters.pop() if clusters else None,
        pod_id=pod_id,
    )
