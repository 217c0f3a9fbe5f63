"""Snapshots of volumes: requests are checked here, and jobs create, revert to and delete snapshots.

A snapshot is stored in its volume, and the hypervisor of the VM to which the volume is attached creates it. It is a
snapshot of that VM with only one of its volumes (``services.virtual_machines.vm_snapshots``).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.domain.virtual_machines.vm_snapshots import SnapshotState, SnapshotType
from bulkdeploy.drivers.abilities.snapshots import LiveSnapshots, VolumeSnapshots
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.volumes.create_snapshot import CREATE_SNAPSHOT
from bulkdeploy.provisioning.kinds.volumes.delete_snapshot import DELETE_SNAPSHOT
from bulkdeploy.provisioning.kinds.volumes.revert_snapshot import REVERT_SNAPSHOT
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.ownership import NO_OWNER, NamedOwner, require_same_owner
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import require_ready, submit
from bulkdeploy.services.virtual_machines.vm_snapshots import check_none_at_work, params_of, submit_for
from bulkdeploy.services.volumes.volumes import owned_volume
from bulkdeploy.store import resource_tags
from bulkdeploy.store.accounts.live_limits import require_within_limits
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.virtual_machines import vm_snapshots as store
from bulkdeploy.store.volumes.volume_changes import READY, has_job_of_volume, known_volume, read_vm

NO_POLICY: Mapping[str, Any] = {}
"""The policy type of snapshots that a call takes."""

NO_TAGS: Mapping[str, str] = {}

OF_VOLUME, OF_SNAPSHOT = "volumeid", "id"


def create_snapshot(
    connection: Connection,
    system: System,
    caller: Caller,
    ref: EntityRef,
    name: str | None,
    named: NamedOwner = NO_OWNER,
    *,
    policy: Mapping[str, Any] = NO_POLICY,
    zones: Sequence[EntityRef] = (),
    tags: Mapping[str, str] = NO_TAGS,
) -> JobTicket:
    """Create a snapshot of a volume that is attached to a running or stopped VM; the job's result is the snapshot.

    ``policy`` contains the ``policy_id`` and the ``interval_type`` if a policy creates the snapshot. ``zones`` are
    the zones in which the snapshot is requested; only the zone of the volume is possible.

    Raises:
        PermissionDenied: the caller may not access the volume, or the named account does not own it.
        InvalidParameter: the volume was deleted, is not attached to a VM, is in another zone, or does not exist in
            a pool yet; the VM's state does not allow the operation, or a job works on the volume or a snapshot of
            the VM; or the VM's hypervisor does not support the operation.
        ResourceLimitExceeded: the limit of snapshots of the account or of a domain above it would be exceeded.
        TransactionConflict: the volume was detached meanwhile; the whole transaction must be repeated.
    """
    volume, owner = owned_volume(connection, caller, ref, OF_VOLUME)
    require_same_owner(connection, caller, named, [volume.account_id], "volume")
    require_zone_of_volume(volume, zones, "zoneids")
    if volume.vm_id is None:
        rule = "it is not attached to a virtual machine; only attached volumes can have snapshots"
        raise InvalidParameter(OF_VOLUME, str(ref.uuid), rule)
    require_within_limits(connection, [owner], ResourceType.SNAPSHOT)
    seen = read_vm(connection, volume.vm_id)
    vm = EntityRef(Entity.VIRTUAL_MACHINE, seen.id, seen.uuid, seen.name)
    check = partial(_check_creation, system=system, volume=volume)
    row = require_ready(connection, system, caller, vm, CREATE_SNAPSHOT, check, parameter=OF_VOLUME, value=ref.uuid)
    made = store.insert_vm_snapshot(
        connection,
        f"{row.name}_{volume.name}_",
        name,
        vm_id=vm.id,
        volume_id=volume.id,
        account_id=volume.account_id,
        snapshot_type=SnapshotType.DISK.value,
        **policy,
    )
    if tags:
        resource_tags.insert_tags(connection, resource_tags.SNAPSHOT, {made.id: volume.account_id}, tags, None)
    params = params_of(made, with_memory=False, volume_uuid=ref.uuid)
    ticket = submit(connection, system, caller, vm, CREATE_SNAPSHOT, params, parameter=OF_VOLUME, value=ref.uuid)
    return JobTicket(ticket.job_uuid, str(made.uuid))


def require_zone_of_volume(volume: Row[Any], zones: Sequence[EntityRef], parameter: str) -> None:
    """Check that no zone except the zone of the volume is named for snapshots of the volume.

    Raises:
        InvalidParameter: another zone is named.
    """
    for zone in zones:
        if zone.id != volume.zone_id:
            rule = f"volume {volume.uuid} is in another zone; snapshots are stored on the pool of the volume"
            raise InvalidParameter(parameter, str(zone.uuid), rule)


def delete_snapshot(
    connection: Connection, system: System, caller: Caller, ref: EntityRef, zone: EntityRef | None = None
) -> JobTicket:
    """Create the job that deletes a snapshot. Its volume and other snapshots are not changed.

    Raises:
        PermissionDenied, InvalidParameter: under the same conditions as ``submit_for``.
        InvalidParameter: the snapshot is not in the zone.
    """
    states = frozenset({SnapshotState.READY, SnapshotState.ERROR})
    volume = _volume_of(connection, ref)
    ticket = _submit_for(connection, system, caller, ref, DELETE_SNAPSHOT, states, SnapshotState.EXPUNGING, volume)
    # The zone is checked after the owner: the error would tell others in which zone the volume is not.
    require_zone_of_volume(volume, () if zone is None else (zone,), "zoneid")
    return ticket


def revert_snapshot(connection: Connection, system: System, caller: Caller, ref: EntityRef) -> JobTicket:
    """Create the job that reverts a volume of a stopped VM to a snapshot; the job's result is the snapshot.

    Raises:
        PermissionDenied, InvalidParameter: under the same conditions as ``submit_for``.
    """
    states = frozenset({SnapshotState.READY})
    volume = _volume_of(connection, ref)
    return _submit_for(connection, system, caller, ref, REVERT_SNAPSHOT, states, SnapshotState.REVERTING, volume)


def _submit_for(
    connection: Connection,
    system: System,
    caller: Caller,
    ref: EntityRef,
    kind: JobKind,
    states: frozenset[SnapshotState],
    state: SnapshotState,
    volume: Row[Any],
) -> JobTicket:
    return submit_for(
        connection, system, caller, ref, kind, states, state, parameter=OF_SNAPSHOT, volume_uuid=volume.uuid
    )


def _volume_of(connection: Connection, snapshot: EntityRef) -> Row[Any]:
    return known_volume(connection, store.known_vm_snapshot(connection, snapshot.id).volume_id)


def _check_creation(connection: Connection, vm: Row[Any], *, system: System, volume: Row[Any]) -> None:
    shown = str(volume.uuid)
    if known_volume(connection, volume.id).vm_id != vm.id:
        raise TransactionConflict
    require_ability(system.drivers, vm.hypervisor, VolumeSnapshots, OF_VOLUME, shown)
    if vm.state == VmState.RUNNING and not vm.has_job:
        require_ability(system.drivers, vm.hypervisor, LiveSnapshots, OF_VOLUME, shown)
    if volume.state != READY:
        rule = f"it is {volume.state}; it must be Ready: start its virtual machine once"
        raise InvalidParameter(OF_VOLUME, shown, rule)
    check_none_at_work(store.snapshots_of_vms(connection, [vm.id]), OF_VOLUME, shown)
    if has_job_of_volume(connection, vm.id, volume.id):
        rule = "a job is attaching, detaching or resizing the volume; wait until the job ends"
        raise InvalidParameter(OF_VOLUME, shown, rule)
