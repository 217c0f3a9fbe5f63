"""Starting, stopping and destroying VMs: requests are checked here, and jobs do the work.

Jobs of one VM run one after the other. While a VM has an unfinished job, the state in which the next job will find
the VM is unknown. Therefore states are checked here only if the VM has no unfinished job; the job itself always
checks the state.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, RoleType
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState, one_of
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.expunge_virtual_machine import EXPUNGE
from bulkdeploy.provisioning.kinds.virtual_machines.reboot_virtual_machine import REBOOT
from bulkdeploy.provisioning.kinds.virtual_machines.repair_virtual_machine import REPAIR
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.scheduling.vm_snapshots import find_snapshots_that_stay, find_spoiled_snapshots
from bulkdeploy.scheduling.volume_attachment import check_deletable
from bulkdeploy.services.abilities import find_missing_ability
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.sending import submit_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.ledger.volume_removal import data_volumes_of, owners_of_volumes
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.store.volumes.volume_changes import known_volume


def stop_virtual_machine(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, *, forced: bool
) -> JobTicket:
    """Create the job that stops a VM. If ``forced`` is true, the VM is powered off without a shutdown.

    Raises:
        PermissionDenied: the caller may not access the VM, or may not stop VMs by force.
        InvalidParameter: the VM cannot be stopped in its state, or was expunged.
    """
    if forced:
        require_right(connection, caller, "allow.user.force.stop.vm", "stop a virtual machine with force")
    return submit(connection, system, caller, vm, STOP, {"forced": forced})


def destroy_virtual_machine(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    *,
    expunge: bool,
    volumes: Sequence[EntityRef] = (),
) -> JobTicket:
    """Create the job that destroys a VM.

    If ``expunge`` is true, the VM and its volumes are deleted immediately, otherwise after ``expunge.delay``.
    ``volumes`` are data volumes of the VM that are deleted when the VM is destroyed.

    Raises:
        PermissionDenied: the caller may not access the VM or a volume, or may not expunge VMs.
        InvalidParameter: the VM is protected or was expunged, a volume is protected or is not a data volume of the
            VM, or the VM has snapshots in volumes that are not deleted with it.
    """
    if expunge:
        require_right(connection, caller, "allow.user.expunge.recover.vm", "expunge a virtual machine")
    params: dict[str, Any] = {"expunge": expunge}
    if volumes:
        params["volume_ids"] = [volume.id for volume in volumes]
    check = partial(_check_destroyable, caller=caller, volumes=volumes)
    return submit(connection, system, caller, vm, DESTROY, params, check)


def _check_destroyable(
    connection: Connection, vm: Row[Any], *, caller: Caller, volumes: Sequence[EntityRef]
) -> None:
    for rule in find_undestroyable(connection, [vm], [volume.id for volume in volumes]).values():
        raise InvalidParameter("id", str(vm.uuid), rule)
    if not volumes:
        return
    owners = owners_of_volumes(connection, [volume.id for volume in volumes])
    for volume in volumes:
        if owners[volume.id] != vm.account_id:
            require_access(connection, caller, owners[volume.id], f"volume {volume.uuid}")
    found = data_volumes_of(connection, vm.id)
    for volume in volumes:
        if volume.id not in found:
            rule = f"it must be a data volume that virtual machine {vm.uuid} has"
            raise InvalidParameter("volumeids", str(volume.uuid), rule)
        check_deletable(known_volume(connection, volume.id), "volumeids")


def find_undestroyable(
    connection: Connection, vms: Sequence[Row[Any]], going: Collection[int] = ()
) -> dict[int, str]:
    """Return the VMs that must not be destroyed, by VM id, with the violated rule. The caller has locked the VMs.

    ``going`` are data volumes that are deleted with the VMs.
    """
    protected = "Instance [id = {0.uuid}, name = {0.name}] has delete protection enabled and cannot be deleted."
    return find_snapshots_that_stay(connection, vms, going) | {
        vm.id: protected.format(vm) for vm in vms if vm.delete_protection
    }


def reboot_virtual_machine(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, *, forced: bool
) -> JobTicket:
    """Create the job that stops and starts a running VM. If ``forced`` is true, the VM is powered off first.

    Raises:
        PermissionDenied: the caller may not access the VM, or may not stop VMs by force.
        InvalidParameter: the VM does not run, or was expunged.
    """
    if forced:
        require_right(connection, caller, "allow.user.force.stop.vm", "reboot a virtual machine with force")
    return submit(connection, system, caller, vm, REBOOT, {"forced": forced})


def repair_virtual_machine(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, *, forced: bool
) -> JobTicket:
    """Create the job that changes a VM's guest so that it matches the VM's rows.

    If ``forced`` is true, the guest is restarted for changes that are not possible while it runs.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM's state does not allow the operation, or was expunged.
    """
    return submit(connection, system, caller, vm, REPAIR, {"forced": forced})


def expunge_virtual_machine(connection: Connection, system: System, caller: Caller, vm: EntityRef) -> JobTicket:
    """Create the job that immediately removes a destroyed VM and its volumes.

    Raises:
        PermissionDenied: the caller may not access the VM, or may not expunge VMs.
        InvalidParameter: the VM was not destroyed, or was expunged.
    """
    require_right(connection, caller, "allow.user.expunge.recover.vm", "expunge a virtual machine")
    return submit(connection, system, caller, vm, EXPUNGE, {})


def require_right(connection: Connection, caller: Caller, setting: str, what: str) -> None:
    """Raise PermissionDenied if the caller is a user and the setting ``setting`` is false. Admins always may."""
    if caller.role_type is not RoleType.USER:
        return
    if not read_configuration(connection).flag(setting):
        raise PermissionDenied(f"{caller.username} may not {what}: the setting {setting} is false")


def _changes_guest(kind: JobKind, vm: Row[Any]) -> bool:
    """Return whether a job of this kind would change a running guest, if the job is possible.

    The future state of a VM with an unfinished job is unknown, so only the states that the kind accepts are used.
    """
    return kind.states == {VmState.RUNNING} or (vm.state == VmState.RUNNING and not vm.has_job)


Check = Callable[[Connection, Row[Any]], None]
"""A rule about the VM's locked row; raises where it is broken."""


def submit(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    kind: JobKind,
    params: Mapping[str, Any],
    check: Check | None = None,
    *,
    parameter: str = "id",
    value: UUID | None = None,
) -> JobTicket:
    """Create a job of this kind for a VM, with its event and its outbox row. The job is sent after the commit.

    ``parameter`` is the parameter of the call that names the VM, or that names an object of the VM with the id
    ``value``.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM's state does not allow this kind of job, the VM's hypervisor does not support it,
            the VM was expunged or has snapshots that the job would make unusable; or an error of ``check``.
    """
    row = require_ready(connection, system, caller, vm, kind, check, parameter=parameter, value=value)
    job = kind.new_job(
        Instance(kind.instance_type, vm.id, vm.uuid),
        f"asked to {kind.verb} Vm {row.name}",
        account_id=caller.owner.account_id,
        user_id=caller.user_id,
        is_root_admin=caller.is_root_admin,
        params=params,
    )
    (ticket,) = submit_jobs(connection, system.job_queue, [job])
    return ticket


def require_ready(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    kind: JobKind,
    check: Check | None = None,
    *,
    parameter: str = "id",
    value: UUID | None = None,
) -> Row[Any]:
    """Lock a VM and return its row. Raises an error if the caller may not create a job of this kind for it now.

    Raises:
        PermissionDenied, InvalidParameter: under the same conditions as ``submit``.
    """
    shown, named = (str(vm.uuid), "it") if value is None else (str(value), f"virtual machine {vm.uuid}")
    row = lock_vm(connection, vm.id)
    require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")
    for rule in find_unready(connection, system, [row], kind, named).values():
        raise InvalidParameter(parameter, shown, rule)
    if check is not None:
        check(connection, row)
    return row


def find_unready(
    connection: Connection, system: System, vms: Sequence[Row[Any]], kind: JobKind, named: str = "it"
) -> dict[int, str]:
    """Return the VMs that a job of this kind cannot process, by VM id, with the violated rule.

    The VMs must be locked. The state of a VM with an unfinished job is not checked, because that job may change it.
    ``named`` is the name of a VM in the texts.
    """
    spoiled = find_spoiled_snapshots(connection, [vm.id for vm in vms]) if kind.spoils_snapshots else {}
    found: dict[int, str] = {}
    for vm in vms:
        rule = _unready(system, vm, kind, named) or spoiled.get(vm.id)
        if rule is not None:
            found[vm.id] = rule
    return found


def _unready(system: System, vm: Row[Any], kind: JobKind, named: str) -> str | None:
    if vm.removed:
        return "the virtual machine was expunged"
    if not vm.has_job and vm.state not in kind.states:
        return f"cannot {kind.verb} {named} in state {vm.state}; its state must be {one_of(kind.states)}"
    if kind.ability is not None and _changes_guest(kind, vm):
        return find_missing_ability(system.drivers, vm.hypervisor, kind.ability)
    return None
