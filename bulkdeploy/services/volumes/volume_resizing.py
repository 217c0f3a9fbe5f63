"""The resizeVolume command: its rules, and the choice between an immediate change and a job.

A volume that no guest uses changes immediately in its row; its pool enlarges it when its VM starts. A job resizes a
volume that a running guest uses, and shrinks a volume that exists in a pool (``provisioning/kinds/resize_volume``).
"""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.deployments.deployment import DiskOfferingFacts
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.infrastructure.topology import VolumeType
from bulkdeploy.domain.units import gib_to_bytes
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.resizing import ShrinkingVolumes
from bulkdeploy.provisioning.kinds.volumes.resize_volume import RESIZE_VOLUME
from bulkdeploy.scheduling.vm_snapshots import check_no_snapshots_of_volumes
from bulkdeploy.scheduling.volume_resizing import VolumeSize, check_resizable, resize
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.deployments.deployment_checks import usable_disk_offering
from bulkdeploy.services.deployments.deployment_sizes import disk_gib
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.device_changes import is_changed_now
from bulkdeploy.services.virtual_machines.virtual_machines import submit
from bulkdeploy.services.volumes.volume_attachment import OF_VM, finished_volume_job
from bulkdeploy.services.volumes.volumes import owned_volume
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.deployments import deployment_facts as facts
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.store.volumes import volume_changes as store


def resize_volume(
    connection: Connection,
    system: System,
    caller: Caller,
    ref: EntityRef,
    size_gib: int | None,
    offering: EntityRef | None,
    *,
    shrink_ok: bool,
) -> JobTicket:
    """Change the size of a volume, or its disk offering and size; the job's result is the volume.

    Raises:
        InvalidParameter, InvalidCombination: the offering does not match the volume or the size; the volume would
        shrink and is a root disk, or ``shrink_ok`` is false; the state of the volume or of the VM does not allow
        it; the volume has snapshots; or the hypervisor does not support it.
        PermissionDenied: the caller may not access the volume, or the VM's owner may not use the offering.
        ResourceLimitExceeded: the limit of primary storage of the account or of a domain above it would be
            exceeded.
        ResourceUnavailable: the volume's pool has too little free capacity.
    """
    volume, owner = owned_volume(connection, caller, ref)
    new = _requested_size(connection, owner, volume, size_gib, offering)
    _check_shrink(volume, new, shrink_ok=shrink_ok)
    if volume.vm_id is None:
        check_resizable(volume, new, None)
        resize(connection, volume, new)
        return _finished_job(connection, caller, ref, volume, new)
    seen = store.read_vm(connection, volume.vm_id)
    require_access(connection, caller, seen.account_id, f"virtual machine {seen.uuid}")
    of_vm = EntityRef(Entity.VIRTUAL_MACHINE, seen.id, seen.uuid, seen.name)
    params = {"volume_id": ref.id, "volume_uuid": str(ref.uuid)}
    params |= {"size_bytes": new.size_bytes, "disk_offering_id": new.disk_offering_id}
    by_job = partial(submit, connection, system, caller, of_vm, RESIZE_VOLUME, params, parameter=OF_VM)
    if new.size_bytes < volume.size_bytes and volume.pool_id is not None:
        require_ability(system.drivers, seen.hypervisor, ShrinkingVolumes, "id", str(ref.uuid))
        return by_job(partial(_check_shrinkable, volume=volume, new=new))
    if is_changed_now(connection, RESIZE_VOLUME, of_vm, seen.account_id, partial(_change, connection, volume, new)):
        return _finished_job(connection, caller, ref, volume, new)
    return by_job(partial(_check_no_snapshots, volume=volume))


def _requested_size(
    connection: Connection, owner: Owner, volume: Row[Any], size_gib: int | None, offering: EntityRef | None
) -> VolumeSize:
    """Return the requested size. The volume's present disk offering is ignored if it is given."""
    if offering is not None and offering.id != volume.disk_offering_id:
        return _of_offering(connection, owner, volume, size_gib, offering)
    if size_gib is None:
        raise InvalidCombination(
            ("size", "diskofferingid"), "size or another disk offering must be given to resize a volume"
        )
    if volume.volume_type == VolumeType.ROOT:
        if volume.disk_offering_id is None and store.has_fixed_root_disk(connection, volume.service_offering_id):
            rule = (
                "Failed to resize Root volume. The service offering of this Volume has been configured with a root "
                "disk size"
            )
            raise InvalidParameter("id", str(volume.uuid), rule)
        return VolumeSize(gib_to_bytes(size_gib), volume.disk_offering_id)
    current = facts.read_disk_offering(connection, volume.disk_offering_id)
    if current is None or not current.customized:
        rule = (
            "To change a volume's size without providing a new disk offering, its current disk offering must be "
            "customizable or it must be a root volume"
        )
        raise InvalidParameter("id", str(volume.uuid), rule)
    return VolumeSize(gib_to_bytes(disk_gib(read_configuration(connection), size_gib, current)), current.id)


def _of_offering(
    connection: Connection, owner: Owner, volume: Row[Any], size_gib: int | None, offering: EntityRef
) -> VolumeSize:
    """Return the size that another disk offering sets.

    ``size_gib`` is ignored unless the offering is customized.
    """
    if volume.volume_type == VolumeType.ROOT:
        rule = (
            "a root volume is resized by size, because its disk offering is the virtual machine's service offering"
        )
        raise InvalidParameter("diskofferingid", str(offering.uuid), rule)
    place = facts.read_zone(connection, volume.zone_id)
    if place is None:
        raise InvalidParameter("id", str(volume.uuid), "the volume's zone was deleted")
    found = usable_disk_offering(connection, owner, place, offering)
    _check_pool_serves(connection, volume, found, offering)
    requested = size_gib if found.customized else None
    return VolumeSize(gib_to_bytes(disk_gib(read_configuration(connection), requested, found)), found.id)


def _check_pool_serves(
    connection: Connection, volume: Row[Any], found: DiskOfferingFacts, offering: EntityRef
) -> None:
    """Check that the volume's pool has the storage type and tags that the new offering requires."""
    if volume.pool_id is None:
        return
    if store.storage_of(connection, volume.disk_offering_id) != (found.storage_type, found.storage_tags):
        rule = "The tags on the new and old disk offerings must match, and so must their storage types"
        raise InvalidParameter("diskofferingid", str(offering.uuid), rule)


def _check_shrink(volume: Row[Any], new: VolumeSize, *, shrink_ok: bool) -> None:
    if new.size_bytes >= volume.size_bytes:
        return
    rule = (
        f"Going from existing size of {volume.size_bytes} to size of {new.size_bytes} would shrink the volume."
        "Need to sign off by supplying the shrinkok parameter with value of true."
    )
    if volume.volume_type == VolumeType.ROOT:
        rule = f"a root volume is never made smaller: it has {volume.size_bytes} bytes"
    if volume.volume_type == VolumeType.ROOT or not shrink_ok:
        raise InvalidParameter("size", new.size_bytes, rule)


def _check_no_snapshots(connection: Connection, vm: Row[Any], *, volume: Row[Any]) -> None:
    check_no_snapshots_of_volumes(connection, vm.id, "id", volume.uuid, volume_id=volume.id)


def _check_shrinkable(connection: Connection, vm: Row[Any], *, volume: Row[Any], new: VolumeSize) -> None:
    """Raise an error if a volume cannot shrink.

    The VM's state is not checked while a job works on the VM, because the state after the job is unknown.
    """
    _check_no_snapshots(connection, vm, volume=volume)
    if not vm.has_job:
        check_resizable(volume, new, VmState(vm.state))


def _change(connection: Connection, volume: Row[Any], new: VolumeSize) -> Row[Any]:
    seen = store.read_vm(connection, volume.vm_id)
    check_resizable(volume, new, VmState(seen.state))
    resize(connection, volume, new)
    row = lock_vm(connection, volume.vm_id)
    _check_no_snapshots(connection, row, volume=volume)
    return row


def _finished_job(
    connection: Connection, caller: Caller, ref: EntityRef, volume: Row[Any], new: VolumeSize
) -> JobTicket:
    text = f"resized volume {volume.name} from {volume.size_bytes} to {new.size_bytes} bytes"
    return finished_volume_job(connection, caller, ref, RESIZE_VOLUME, text)
