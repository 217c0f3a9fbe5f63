"""Operations on data volumes: create, update and delete.

A volume gets a pool and claims its capacity when it is attached to a running VM, or otherwise when its VM starts.
The sweeper removes deleted volumes from their pools.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import VolumeType
from bulkdeploy.domain.jobs import class_for
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.units import gib_to_bytes
from bulkdeploy.scheduling.volume_attachment import check_deletable
from bulkdeploy.services.deployments.deployment_checks import usable_disk_offering
from bulkdeploy.services.deployments.deployment_sizes import disk_gib
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import (
    NamedOwner,
    as_found_by_id,
    lock_owner,
    require_access,
    require_open_zones,
)
from bulkdeploy.store.accounts.resource_counts import add_amounts, check_limits
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.deployments import deployment_facts as facts
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.ledger.volume_removal import destroy_volumes
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.store.volumes import volume_changes as store
from bulkdeploy.store.volumes.volumes import DESTROYED, EXPUNGED, list_volumes

UPDATE_COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.volume.UpdateVolumeCmdByAdmin"
COMMANDS = "org.apache.cloudstack.api.command.user.volume"


def create_volume(
    connection: Connection,
    caller: Caller,
    named: NamedOwner,
    name: str | None,
    zone: EntityRef,
    offering: EntityRef,
    size_gib: int | None,
    uuid: str | None = None,
) -> JobTicket:
    """Create a data volume that is not yet placed in a pool; the job's result is the volume.

    ``uuid`` is the id of the new volume if it is given.

    Raises:
        InvalidParameter, InvalidCombination: the zone or the offering cannot be used, or the size violates a rule.
        PermissionDenied: the caller may not create objects for this owner, or the owner may not use the zone or the
            offering.
        ResourceLimitExceeded: the limit of volumes or primary storage of the account or of a domain above it would
            be exceeded.
    """
    owner = lock_owner(connection, caller, named)
    size_bytes = gib_to_bytes(_size_gib(connection, caller, owner, zone, offering, size_gib))
    amounts = ResourceAmounts(volume=1, primary_storage_bytes=size_bytes)
    check_limits(connection, owner, amounts)
    add_amounts(connection, owner, amounts)
    ref = store.insert_volume(
        connection,
        name=name or f"DATA-{owner.account_name}",
        account_id=owner.account_id,
        zone_id=zone.id,
        size_bytes=size_bytes,
        disk_offering_id=offering.id,
        **({} if uuid is None else {"uuid": uuid}),
    )
    text = f"made volume {ref.name} of {size_bytes} bytes"
    record_event(connection, caller, EventType.VOLUME_CREATE, text, volume_reference(ref), owner)
    row = volume_row(connection, caller, ref)
    cmd = f"{COMMANDS}.CreateVolumeCmd"
    return done_with_object(connection, caller, cmd, "volume", row, volume_reference(ref), created=True)


def update_volume(
    connection: Connection, caller: Caller, ref: EntityRef, name: str | None, *, delete_protection: bool | None
) -> JobTicket:
    """Change the name or the delete protection of a volume; the job's result is the volume.

    A data volume that was created with its VM is not deleted with the VM once it was protected.

    Raises:
        InvalidParameter: the volume was deleted, or would be protected while a job works on the VM with which it
            was created.
        PermissionDenied: the caller may not access the volume.
    """
    row, owner = owned_volume(connection, caller, ref)
    values: dict[str, Any] = {} if name is None else {"name": name}
    if delete_protection is not None:
        values["delete_protection"] = delete_protection
    if delete_protection and row.volume_type == VolumeType.DATADISK and not row.standalone:
        values["standalone"] = True
        if row.vm_id is not None and lock_vm(connection, row.vm_id).has_job:
            rule = "its virtual machine has an unfinished job; wait until it ends"
            raise InvalidParameter("id", str(ref.uuid), rule)
    store.update_volume(connection, row.id, values)
    text = f"changed {', '.join(sorted(values)) or 'nothing'} of volume {row.name}"
    record_event(connection, caller, EventType.VOLUME_UPDATE, text, volume_reference(ref), owner)
    cmd = class_for(UPDATE_COMMAND_CLASS, is_root_admin=caller.is_root_admin)
    return done_with_object(
        connection, caller, cmd, "volume", volume_row(connection, caller, ref), volume_reference(ref)
    )


def delete_volume(connection: Connection, caller: Caller, ref: EntityRef) -> None:
    """Delete a volume that is not attached to a VM.

    The owner's resource counts decrease immediately. The capacity of the pool is released after the volume is
    deleted there.

    Raises:
        InvalidParameter: the volume was deleted, or is attached to a VM.
        PermissionDenied: the caller may not access the volume.
    """
    _remove(connection, caller, ref, EventType.VOLUME_DELETE)


def destroy_volume(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Delete a volume as ``delete_volume`` does, and return a finished job whose result is the volume's last state.

    Raises:
        InvalidParameter, PermissionDenied: under the same conditions as ``delete_volume``.
    """
    shown = volume_row(connection, caller, ref)
    may_be_left = _remove(connection, caller, ref, EventType.VOLUME_DESTROY)
    row = {**shown, "state": DESTROYED if may_be_left else EXPUNGED, "destroyed": may_be_left}
    return done_with_object(
        connection, caller, f"{COMMANDS}.DestroyVolumeCmd", "volume", row, volume_reference(ref)
    )


def owned_volume(
    connection: Connection, caller: Caller, ref: EntityRef, parameter: str = "id"
) -> tuple[Row[Any], Owner]:
    """Lock a volume that the caller may use until the end of the transaction, and return its row and its owner.

    ``parameter`` is the parameter of the call that names the volume.

    Raises:
        InvalidParameter: the volume was deleted.
        PermissionDenied: the caller may not access the volume.
    """
    row = store.take_volume(connection, ref.id)
    if row is None:
        raise InvalidParameter(parameter, str(ref.uuid), "the volume was deleted")
    return row, require_access(connection, caller, row.account_id, f"volume {ref.uuid}")


def volume_row(connection: Connection, caller: Caller, ref: EntityRef) -> Mapping[str, Any]:
    """Return the row of the volume in listVolumes.

    Raises:
        InvalidParameter: the volume was deleted, or the caller may not see it.
    """
    page = list_volumes(connection, as_found_by_id(connection, caller), {"id": ref}, Paging(1))
    if not page.rows:
        owned_volume(connection, caller, ref)
        raise InvalidParameter("id", str(ref.uuid), "the volume was deleted")
    return page.rows[0]


def volume_reference(ref: EntityRef) -> Instance:
    """Return the reference to a volume that jobs and events store."""
    return Instance("Volume", ref.id, ref.uuid)


def _remove(connection: Connection, caller: Caller, ref: EntityRef, event_type: EventType) -> bool:
    """Delete the row of a volume, and return whether the volume must still be deleted in its pool."""
    row, owner = owned_volume(connection, caller, ref)
    if row.vm_id is not None or row.volume_type == VolumeType.ROOT:
        raise InvalidParameter("id", str(ref.uuid), "Please specify a volume that is not attached to any VM.")
    check_deletable(row, "id")
    if not destroy_volumes(connection, [row.id]):
        raise TransactionConflict
    record_event(connection, caller, event_type, f"deleted volume {row.name}", volume_reference(ref), owner)
    return row.pool_id is not None


def _size_gib(
    connection: Connection,
    caller: Caller,
    owner: Owner,
    zone: EntityRef,
    offering: EntityRef,
    size_gib: int | None,
) -> int:
    """Return the size of a new volume in GiB. Raises an error if its owner may not use the zone or the offering."""
    place = facts.read_zone(connection, zone.id)
    if place is None:
        raise InvalidParameter("zoneid", str(zone.uuid), "the zone was deleted")
    require_open_zones(connection, [(owner, zone.id, zone.uuid)])
    if not place.enabled and not caller.is_root_admin:
        raise PermissionDenied(f"Cannot perform this operation, Zone is currently disabled: {zone.uuid}")
    found = usable_disk_offering(connection, owner, place, offering)
    return disk_gib(read_configuration(connection), size_gib, found)
