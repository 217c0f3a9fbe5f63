"""Starting, stopping and destroying VMs: checked here, done by a job.

Jobs of one VM run one after the other. While one is unfinished nobody knows the state the next one will
find, so states are checked here only where none is; the job itself always checks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller, RoleType
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import JobKind, command_class
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.action_events import SCHEDULED, ActionEvent, write_events
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.guests import lock_vm
from bulkdeploy.store.jobs import NewJob, insert_jobs
from bulkdeploy.store.volume_removal import data_volumes_of, owners_of_volumes


@dataclass(frozen=True, slots=True)
class Action:
    """One kind of job for an existing VM.

    ``states``: those in which it can be asked for; ``parameter``: the one that names the VM.
    """

    kind: JobKind
    event_type: EventType
    verb: str
    states: frozenset[VmState]
    parameter: str = "id"


START = Action(JobKind.START, EventType.VM_START, "start", frozenset({VmState.STOPPED}))
STOP = Action(
    JobKind.STOP,
    EventType.VM_STOP,
    "stop",
    frozenset({VmState.RUNNING, VmState.STOPPED, VmState.STOPPING, VmState.UNKNOWN}),
)
REBOOT = Action(JobKind.REBOOT, EventType.VM_REBOOT, "reboot", frozenset({VmState.RUNNING}))
EXPUNGE = Action(
    JobKind.EXPUNGE,
    EventType.VM_EXPUNGE,
    "expunge",
    frozenset({VmState.DESTROYED, VmState.EXPUNGING, VmState.ERROR}),
)
DESTROY = Action(JobKind.DESTROY, EventType.VM_DESTROY, "destroy", frozenset(VmState))


def start_virtual_machine(
    system: System,
    caller: Caller,
    vm: EntityRef,
    *,
    pod_id: int | None = None,
    cluster_id: int | None = None,
    host_id: int | None = None,
    planner: str | None = None,
    consider_last_host: bool = False,
) -> JobTicket:
    """Start a stopped VM, inside a pod, a cluster or on a host if given; the narrowest counts.

    ``planner`` places it instead of its offering's; with ``consider_last_host`` the host that it was on last
    is tried before others.

    Raises:
        PermissionDenied: the VM is not the caller's to touch.
        InvalidParameter: it cannot be started in its state, or was expunged.
    """
    pins = {"host_id": host_id, "cluster_id": cluster_id, "pod_id": pod_id}
    params: dict[str, Any] = next(({name: pin} for name, pin in pins.items() if pin is not None), {})
    if planner is not None:
        params["planner"] = planner
    if consider_last_host:
        params["consider_last_host"] = True
    return submit(system, caller, vm, START, params)


def stop_virtual_machine(system: System, caller: Caller, vm: EntityRef, *, forced: bool) -> JobTicket:
    """Stop a VM; ``forced``: its power is cut.

    Raises:
        PermissionDenied: the VM is not the caller's to touch, or the caller may not use force.
        InvalidParameter: it cannot be stopped in its state, or was expunged.
    """
    if forced:
        require_right(system, caller, "allow.user.force.stop.vm", "stop a virtual machine with force")
    return submit(system, caller, vm, STOP, {"forced": forced})


def destroy_virtual_machine(
    system: System, caller: Caller, vm: EntityRef, *, expunge: bool, volumes: Sequence[EntityRef] = ()
) -> JobTicket:
    """Destroy a VM; ``expunge``: with its volumes and at once, else after ``expunge.delay``.

    ``volumes``: data volumes of it that are deleted as soon as it is destroyed.

    Raises:
        PermissionDenied: the VM or a volume is not the caller's to touch, or the caller may not expunge.
        InvalidParameter: it is protected, or was expunged, or a volume is no data volume of it.
    """
    if expunge:
        require_right(system, caller, "allow.user.expunge.recover.vm", "expunge a virtual machine")
    params: dict[str, Any] = {"expunge": expunge}
    if volumes:
        params["volume_ids"] = [volume.id for volume in volumes]
    return submit(system, caller, vm, DESTROY, params, partial(_check_volumes, caller=caller, volumes=volumes))


def _check_volumes(connection: Connection, vm: Row[Any], *, caller: Caller, volumes: Sequence[EntityRef]) -> None:
    if not volumes:
        return
    owners = owners_of_volumes(connection, [volume.id for volume in volumes])
    for volume in volumes:
        if owners[volume.id] != vm.account_id:
            require_access(connection, caller, owners[volume.id], f"volume {volume.uuid}")
    found = data_volumes_of(connection, vm.id)
    for volume in volumes:
        if volume.id not in found:
            rule = f"it should be a data volume that virtual machine {vm.uuid} has"
            raise InvalidParameter("volumeids", str(volume.uuid), rule)


def reboot_virtual_machine(system: System, caller: Caller, vm: EntityRef, *, forced: bool) -> JobTicket:
    """Stop and start a running VM; ``forced``: its power is cut.

    Raises:
        PermissionDenied: the VM is not the caller's to touch, or the caller may not use force.
        InvalidParameter: it does not run, or was expunged.
    """
    if forced:
        require_right(system, caller, "allow.user.force.stop.vm", "reboot a virtual machine with force")
    return submit(system, caller, vm, REBOOT, {"forced": forced})


def expunge_virtual_machine(system: System, caller: Caller, vm: EntityRef) -> JobTicket:
    """Remove a destroyed VM and its volumes now.

    Raises:
        PermissionDenied: the VM is not the caller's to touch, or the caller may not expunge.
        InvalidParameter: it was not destroyed, or was expunged.
    """
    require_right(system, caller, "allow.user.expunge.recover.vm", "expunge a virtual machine")
    return submit(system, caller, vm, EXPUNGE, {"expunge": True})


def require_right(system: System, caller: Caller, setting: str, what: str) -> None:
    """Admins may; users where the operator lets them (reference section 8.16)."""
    if caller.role_type is not RoleType.USER:
        return
    with system.engine.connect() as connection:
        if not read_configuration(connection).flag(setting):
            raise PermissionDenied(f"{caller.username} may not {what}: the setting {setting} is false")


Check = Callable[[Connection, Row[Any]], None]
"""A rule about the VM's locked row; raises where it is broken."""


def submit(
    system: System,
    caller: Caller,
    vm: EntityRef,
    action: Action,
    params: Mapping[str, Any],
    check: Check | None = None,
) -> JobTicket:
    """Make the job, its event and its outbox row in one transaction; then send it.

    Raises:
        PermissionDenied: the VM is not the caller's to touch.
        InvalidParameter: the action does not go with its state, or it was expunged; or what ``check`` raises.
    """
    make_job = partial(_make_job, caller=caller, vm=vm, action=action, params=params, check=check)
    job_id, ticket = run_transaction(system.engine, make_job, CrashPoint.SUBMIT_COMMIT)
    send_jobs(system, [JobMessage(job_id, action.kind, INTERACTIVE)])
    return ticket


def _make_job(
    connection: Connection,
    *,
    caller: Caller,
    vm: EntityRef,
    action: Action,
    params: Mapping[str, Any],
    check: Check | None,
) -> tuple[int, JobTicket]:
    row = lock_vm(connection, vm.id)
    require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")
    _check_state(vm, row, action)
    if check is not None:
        check(connection, row)
    cmd = command_class(action.kind, is_root_admin=caller.is_root_admin)
    job = NewJob(action.kind, cmd, caller.owner.account_id, caller.user_id, vm.id, params)
    ((job_id, job_uuid),) = insert_jobs(connection, [job], INTERACTIVE)
    text = f"asked to {action.verb} Vm {row.name}"
    write_events(connection, [ActionEvent(job_id, action.event_type, SCHEDULED, text)])
    return job_id, JobTicket(str(job_uuid))


def _check_state(vm: EntityRef, row: Row[Any], action: Action) -> None:
    if row.removed:
        raise InvalidParameter(action.parameter, str(vm.uuid), "the virtual machine was expunged")
    if action is DESTROY and row.delete_protection:
        raise InvalidParameter(
            action.parameter,
            str(vm.uuid),
            "the virtual machine is protected against deletion (deleteprotection is true)",
        )
    if not row.has_job and VmState(row.state) not in action.states:
        accepted = ", ".join(sorted(state.value for state in action.states))
        raise InvalidParameter(
            action.parameter,
            str(vm.uuid),
            f"cannot {action.verb} it in state {row.state}; its state must be one of: {accepted}",
        )
