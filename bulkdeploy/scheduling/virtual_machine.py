"""Existing VMs for placement: their sizes, their rules, and the hosts and clusters to which volumes bind them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
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
    """Return each of these VMs as ``read_vm_to_place`` does, with a constant number of statements.

    VMs whose rows do not differ in what placement reads share one need.
    """
    vms = read_vms(connection, vm_ids)
    volumes = read_vm_volumes(connection, vm_ids)
    groups = read_vm_groups(connection, vm_ids)
    pods = pods_bound_by_address(connection, vm_ids)
    owners = owners_by_id(connection, {vm.account_id for vm in vms.values()})
    needs: dict[tuple[object, ...], PlacementNeed | None] = {}
    found: dict[int, VmToPlace | None] = {}
    for vm_id in vm_ids:
        vm, of_vm = vms[vm_id], volumes[vm_id]
        member_id = vm_id if groups[vm_id] else None
        alike = (_of_vm(vm), tuple(map(_of_volume, of_vm)), groups[vm_id], member_id, pods.get(vm_id))
        if alike not in needs:
            unplaced = [volume for volume in of_vm if volume.scope is None]
            need = need_of(configuration, vm, owners[vm.account_id], unplaced, groups[vm_id])
            pinned = {"pod_id": pod_id, "cluster_id": cluster_id, "host_id": host_id}
            needs[alike] = _bind(replace(need, vm_id=member_id), of_vm, pods.get(vm_id), **pinned)
        bound = needs[alike]
        found[vm_id] = None
        if bound is not None:
            new_volumes = tuple([volume.uuid for volume in of_vm if volume.scope is None])
            found[vm_id] = VmToPlace(vm_id, vm.uuid, bound, new_volumes, vm.last_host_id)
    return found


_of_vm = attrgetter(
    "account_id",
    "zone_id",
    "hypervisor",
    "cpu_number",
    "cpu_mhz",
    "memory_mib",
    "service_offering_id",
    "template_id",
    "deployment_id",
)
_of_volume = attrgetter("scope", "cluster_id", "host_id", "size_bytes", "disk_offering_id")
"""The columns that determine the need of a VM. Other columns of ``read_vms`` and ``read_vm_volumes`` follow from
them.
"""


def read_deployment_need(connection: Connection, configuration: Configuration, deployment_id: int) -> PlacementNeed:
    """Return the need of one more VM of a deployment: the need of an existing VM with the pins of the call."""
    row = read_vm(connection, vm_of_deployment(connection, deployment_id))
    pins = {"pod_id": row.called_pod_id, "cluster_id": row.called_cluster_id, "host_id": row.called_host_id}
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
    bound_pod_id: int | None,
    *,
    pod_id: int | None,
    cluster_id: int | None,
    host_id: int | None,
) -> PlacementNeed | None:
    """Return the need with the pins of the call, of the VM's volumes and of the pod of its address.

    Returns None if the pins contradict each other.
    """
    pods = {bound_pod_id, pod_id} - {None}
    hosts = {volume.host_id for volume in volumes if volume.scope == PoolScope.HOST} | ({host_id} - {None})
    clusters = {volume.cluster_id for volume in volumes if volume.scope == PoolScope.CLUSTER}
    clusters |= {cluster_id} - {None}
    if max(len(pods), len(hosts), len(clusters)) > 1:
        return None
    return replace(
        need,
        host_id=hosts.pop() if hosts else None,
        cluster_id=clusters.pop() if clusters else None,
        pod_id=pods.pop() if pods else None,
    )
