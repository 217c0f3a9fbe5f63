"""Existing VMs as placement sees them: their sizes, their rules, and the places to which volumes bind them."""

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
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
    read_deployment_pins,
    read_vm,
    read_vm_groups,
    read_vm_volumes,
    read_vms,
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
    """Return a VM with its pins narrowed to the places that its existing volumes and addresses allow.

    Returns None if volumes and addresses allow no common place.
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
    needs: dict[Hashable, PlacementNeed | None] = {}
    for vm_id in vm_ids:
        vm, of_vm, group_ids = vms[vm_id], volumes[vm_id], groups[vm_id]
        kind = (_sources_of_need(vm, of_vm), pods.get(vm_id), group_ids, vm_id if group_ids else None)
        unplaced = [volume for volume in of_vm if volume.scope is None]
        if kind not in needs:
            need = need_of(configuration, vm, owners[vm.account_id], unplaced, group_ids)
            needs[kind] = _bind(
                replace(need, vm_id=vm_id if group_ids else None),
                of_vm,
                {pod_id, pods.get(vm_id)} - {None},
                cluster_id=cluster_id,
                host_id=host_id,
            )
        bound = needs[kind]
        found[vm_id] = None
        if bound is not None:
            new_volumes = tuple(volume.uuid for volume in unplaced)
            found[vm_id] = VmToPlace(vm_id, vm.uuid, bound, new_volumes, vm.last_host_id)
    return found


def _sources_of_need(vm: Row[Any], volumes: Sequence[Row[Any]]) -> Hashable:
    """Return the values that determine the need of a VM, apart from its groups and addresses.

    VMs with equal values share one need, so that a need is computed once and not for each VM of a bulk operation.
    """
    of_volumes = tuple(
        (volume.size_bytes, volume.disk_offering_id, volume.scope, volume.cluster_id, volume.host_id)
        for volume in volumes
    )
    offering = (vm.deployment_id, vm.service_offering_id, vm.template_id)
    return vm.account_id, vm.zone_id, vm.hypervisor, vm.cpu_number, vm.cpu_mhz, vm.memory_mib, offering, of_volumes


def read_deployment_need(connection: Connection, configuration: Configuration, deployment_id: int) -> PlacementNeed:
    """Return the need of one more VM of a deployment: the need of an existing VM with the pins of the call."""
    row = read_vm(connection, vm_of_deployment(connection, deployment_id))
    pins = read_deployment_pins(connection, deployment_id)
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
        configuration, bulk=vm.bulk, named=vm.planner, offering=vm.deployment_planner
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
    volumes: Sequence[Row[Any]],
    pods: AbstractSet[int | None],
    *,
    cluster_id: int | None,
    host_id: int | None,
) -> PlacementNeed | None:
    """Return the need with the pins of the call, the volumes and the address, or None if the pins clash.

    ``pods`` are the pods to which the call and the address pin the VM.
    """
    hosts = {volume.host_id for volume in volumes if volume.scope == PoolScope.HOST}
    clusters = {volume.cluster_id for volume in volumes if volume.scope == PoolScope.CLUSTER}
    if host_id is not None:
        hosts.add(host_id)
    if cluster_id is not None:
        clusters.add(cluster_id)
    if max(len(pods), len(hosts), len(clusters)) > 1:
        return None
    return replace(
        need, host_id=next(iter(hosts), None), cluster_id=next(iter(clusters), None), pod_id=next(iter(pods), None)
    )
