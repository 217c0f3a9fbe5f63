"""Snapshots of VMs: requests are checked here, and jobs create, revert to and delete snapshots."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState, one_of
from bulkdeploy.domain.virtual_machines.vm_snapshots import AT_WORK, SnapshotState, SnapshotType
from bulkdeploy.drivers.abilities.snapshots import LiveSnapshots, MemorySnapshots, Snapshots, VolumeSnapshots
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.create_vm_snapshot import CREATE_VM_SNAPSHOT
from bulkdeploy.provisioning.kinds.virtual_machines.delete_vm_snapshot import DELETE_VM_SNAPSHOT
from bulkdeploy.provisioning.kinds.virtual_machines.revert_to_vm_snapshot import REVERT_TO_VM_SNAPSHOT
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import require_ready, submit
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.virtual_machines import vm_snapshots as store
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row

OF_VM, OF_SNAPSHOT = "virtualmachineid", "vmsnapshotid"


def create_vm_snapshot(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    name: str | None,
    description: str | None,
    *,
    with_memory: bool,
) -> JobTicket:
    """Create a snapshot of a VM's volumes; the job's result is the snapshot.

    If ``with_memory`` is true, the snapshot includes the memory of the running VM.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM's state or its hypervisor does not allow the operation, or the VM has another
            snapshot with this name, the maximum number of snapshots, a snapshot with an unfinished job, or volumes
            that do not exist in a pool yet.
    """
    check = partial(_check_creation, system=system, name=name, with_memory=with_memory)
    row = require_ready(connection, system, caller, vm, CREATE_VM_SNAPSHOT, check, parameter=OF_VM)
    kind = SnapshotType.DISK_AND_MEMORY if with_memory else SnapshotType.DISK
    made = store.insert_vm_snapshot(
        connection,
        f"{row.instance_name}_VS_",
        name,
        description=description,
        vm_id=vm.id,
        account_id=row.account_id,
        snapshot_type=kind.value,
    )
    ticket = submit(
        connection,
        system,
        caller,
        vm,
        CREATE_VM_SNAPSHOT,
        params_of(made, with_memory=with_memory),
        parameter=OF_VM,
    )
    return JobTicket(ticket.job_uuid, str(made.uuid))


def delete_vm_snapshot(connection: Connection, system: System, caller: Caller, ref: EntityRef) -> JobTicket:
    """Create the job that deletes a snapshot of a VM. Its children become children of its parent.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the snapshot was deleted, a job works on a snapshot of the VM, or the VM's state does not
            allow the operation.
    """
    states = frozenset({SnapshotState.READY, SnapshotState.ERROR})
    return submit_for(
        connection, system, caller, ref, DELETE_VM_SNAPSHOT, states, SnapshotState.EXPUNGING, parameter=OF_SNAPSHOT
    )


def revert_to_vm_snapshot(connection: Connection, system: System, caller: Caller, ref: EntityRef) -> JobTicket:
    """Create the job that reverts a VM to a snapshot; the job's result is the VM.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the snapshot is not Ready, a job works on another snapshot of the VM, the VM does not run
            and the snapshot has memory, or the VM runs and the snapshot has no memory.
    """
    states = frozenset({SnapshotState.READY})
    return submit_for(
        connection,
        system,
        caller,
        ref,
        REVERT_TO_VM_SNAPSHOT,
        states,
        SnapshotState.REVERTING,
        parameter=OF_SNAPSHOT,
    )


def submit_for(
    connection: Connection,
    system: System,
    caller: Caller,
    ref: EntityRef,
    kind: JobKind,
    states: frozenset[SnapshotState],
    state: SnapshotState,
    *,
    parameter: str,
    volume_uuid: UUID | None = None,
) -> JobTicket:
    """Create a job of this kind for a snapshot that is in one of ``states``.

    The snapshot is in ``state`` until the job ends. ``parameter`` is the parameter that names the snapshot.
    ``volume_uuid`` is given if the snapshot is of one volume.

    Raises:
        PermissionDenied: the caller may not access the snapshot.
        InvalidParameter: the snapshot was deleted, a job works on a snapshot of its VM, or the state of the
            snapshot or of the VM does not allow it.
    """
    known = store.known_vm_snapshot(connection, ref.id)
    require_access(connection, caller, known.account_id, f"snapshot {ref.uuid}")
    seen = read_vm_row(connection, known.vm_id)
    vm = EntityRef(Entity.VIRTUAL_MACHINE, seen.id, seen.uuid, seen.name)
    with_memory = known.snapshot_type == SnapshotType.DISK_AND_MEMORY
    params = params_of(ref, with_memory=with_memory, volume_uuid=volume_uuid)

    ability = Snapshots if volume_uuid is None else VolumeSnapshots

    def check(connection: Connection, row: Row[Any]) -> None:
        require_ability(system.drivers, row.hypervisor, ability, parameter, str(ref.uuid))
        snapshots = store.snapshots_of_vms(connection, [row.id])
        check_none_at_work(snapshots, parameter, str(ref.uuid))
        found = next((snapshot for snapshot in snapshots if snapshot.id == ref.id), None)
        if found is None:
            raise InvalidParameter(parameter, str(ref.uuid), "the snapshot was deleted")
        if found.state not in states:
            rule = f"it is {found.state}; its state must be {one_of(states)}"
            raise InvalidParameter(parameter, str(ref.uuid), rule)
        if state is SnapshotState.REVERTING and not row.has_job:
            _check_power(row, found, parameter)

    ticket = submit(connection, system, caller, vm, kind, params, check, parameter=parameter, value=ref.uuid)
    store.set_snapshot_state(connection, ref.id, state)
    return ticket


def params_of(snapshot: EntityRef, *, with_memory: bool, volume_uuid: UUID | None = None) -> dict[str, Any]:
    """Return the parameters of a job for a snapshot, which ``SnapshotSteps`` reads."""
    params = {"snapshot_id": snapshot.id, "snapshot_uuid": str(snapshot.uuid), "with_memory": with_memory}
    return params if volume_uuid is None else {**params, "volume_uuid": str(volume_uuid)}


def _check_creation(
    connection: Connection, vm: Row[Any], *, system: System, name: str | None, with_memory: bool
) -> None:
    shown, runs = str(vm.uuid), vm.state == VmState.RUNNING
    require_ability(system.drivers, vm.hypervisor, Snapshots, OF_VM, shown)
    if not vm.has_job:
        _check_memory(system, vm, with_memory=with_memory, runs=runs)
    if store.has_unmade_volumes(connection, vm.id):
        rule = "it has volumes that exist on no pool yet: start the virtual machine once"
        raise InvalidParameter(OF_VM, shown, rule)
    snapshots = store.snapshots_of_vms(connection, [vm.id])
    check_none_at_work(snapshots, OF_VM, shown)
    snapshots = [snapshot for snapshot in snapshots if snapshot.volume_id is None]
    most = read_configuration(connection).number("vmsnapshot.max")
    if len(snapshots) >= most:
        rule = f"it has {len(snapshots)} snapshots, and may have {most} (vmsnapshot.max): delete one"
        raise InvalidParameter(OF_VM, shown, rule)
    if name is not None and name in {snapshot.display_name for snapshot in snapshots}:
        raise InvalidParameter("name", name, "the virtual machine has a snapshot of this name")


def _check_memory(system: System, vm: Row[Any], *, with_memory: bool, runs: bool) -> None:
    """Raise an error if the memory of a VM that does not run is requested.

    For a running VM, the hypervisor must support the kind of snapshot.
    """
    if with_memory and not runs:
        raise InvalidParameter("snapshotmemory", "true", f"the virtual machine is {vm.state}; it must be Running")
    if runs:
        ability = MemorySnapshots if with_memory else LiveSnapshots
        require_ability(system.drivers, vm.hypervisor, ability, "snapshotmemory", str(with_memory).lower())


def check_none_at_work(snapshots: Sequence[Row[Any]], parameter: str, shown: str) -> None:
    """Raise InvalidParameter if a job works on one of these snapshots of a VM.

    Jobs for snapshots of one VM must run one after the other.

    Raises:
        InvalidParameter: one of the snapshots has an unfinished job; ``shown`` is the value of ``parameter``.
    """
    for snapshot in snapshots:
        if snapshot.state in AT_WORK:
            rule = f"snapshot {snapshot.display_name} is {snapshot.state}; wait until its job ends"
            raise InvalidParameter(parameter, shown, rule)


def _check_power(vm: Row[Any], snapshot: Row[Any], parameter: str) -> None:
    """Check the VM's power state: a revert neither stops nor starts a VM (reference: revertToVMSnapshot)."""
    with_memory = snapshot.snapshot_type == SnapshotType.DISK_AND_MEMORY
    if with_memory and vm.state != VmState.RUNNING:
        rule = f"the snapshot has memory, and its virtual machine is {vm.state}: start it first"
        raise InvalidParameter(parameter, str(snapshot.uuid), rule)
    if not with_memory and vm.state != VmState.STOPPED:
        rule = f"the snapshot has no memory, and its virtual machine is {vm.state}: stop it first"
        raise InvalidParameter(parameter, str(snapshot.uuid), rule)
