"""Runs of VM schedules: the sweeper starts the bulk operation of each run, or records why the run was skipped.

One transaction creates the jobs of a run and plans the next run. Therefore each run happens once, with any number
of sweepers and also if one of them dies. If runs were missed while no sweeper was active, one run replaces them if
the last of them is less than ``schedule.missed.max`` seconds old.

A schedule acts in the name of the account that owns it, with the rights of a user.

Lock order: the row of the single VM, then the schedule's row, then the VMs of the operation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.schedules.cron_schedules import CronSchedule
from bulkdeploy.domain.schedules.occurrences import find_due
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.reboot_virtual_machine import REBOOT
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.services.fleets.bulk_operations import BulkRequest, jobs_of_kind, run_bulk_operation
from bulkdeploy.services.fleets.vm_selection import VmSelection
from bulkdeploy.services.ownership import owning_caller
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machine_starting import start_operation
from bulkdeploy.services.virtual_machines.vm_work import VmOperation
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.store.virtual_machines import vm_schedules as store
from bulkdeploy.store.virtual_machines.guests import lock_vms


@dataclass(frozen=True, slots=True)
class ScheduledAction:
    """An action that a schedule can run: a bulk operation with its name and the type of its events."""

    command: str
    operation: VmOperation
    event: EventType
    is_forced: bool = False


def _find_not_running(connection: Connection, vms: Sequence[Row[Any]]) -> Mapping[int, str]:
    """Return the VMs that a stop or a reboot would not change."""
    del connection
    running = VmState.RUNNING
    return {vm.id: f"the virtual machine is {vm.state}, not {running}" for vm in vms if vm.state != running}


def _stopping(kind: JobKind, *, forced: bool) -> VmOperation:
    return jobs_of_kind(kind, {"forced": forced}, _find_not_running)


STOPS, REBOOTS = "bulkStopVirtualMachine", "bulkRebootVirtualMachine"
ACTIONS: Mapping[str, ScheduledAction] = {
    "START": ScheduledAction("bulkStartVirtualMachine", start_operation(), EventType.VM_SCHEDULE_START),
    "STOP": ScheduledAction(STOPS, _stopping(STOP, forced=False), EventType.VM_SCHEDULE_STOP),
    "REBOOT": ScheduledAction(REBOOTS, _stopping(REBOOT, forced=False), EventType.VM_SCHEDULE_REBOOT),
    "FORCE_STOP": ScheduledAction(
        STOPS, _stopping(STOP, forced=True), EventType.VM_SCHEDULE_FORCE_STOP, is_forced=True
    ),
    "FORCE_REBOOT": ScheduledAction(
        REBOOTS, _stopping(REBOOT, forced=True), EventType.VM_SCHEDULE_FORCE_REBOOT, is_forced=True
    ),
}


def run_schedule(connection: Connection, *, system: System, schedule_id: int, vm_id: int | None) -> None:
    """Start the bulk operation of a schedule if it is due, and set the time of its next run.

    If the VM, group or deployment of the schedule no longer exists, the schedule is deleted.

    Raises:
        BulkDeployError: no VM of the schedule can be processed. The caller then calls ``skip_occurrence``.
    """
    row = _lock_due(connection, schedule_id, vm_id)
    if row is None:
        return
    target = store.read_target(connection, row)
    if target is None and row.tags is None:
        store.remove_schedules(connection, [row.id])
        return
    occurrence = _plan_next(connection, row)
    action, caller = ACTIONS[row.action], owning_caller(connection, row.account_id)
    if occurrence is None:
        text = f"schedule {row.description} skipped its occurrence of {row.next_run:%Y-%m-%d %H:%M} UTC: it is past"
        record_event(connection, caller, action.event, text, about_schedule(row.id, row.uuid, target))
        return
    run_bulk_operation(
        connection,
        system,
        caller,
        BulkRequest(
            command=action.command,
            operation=action.operation,
            selection=VmSelection(filters=_filters(row, target), visible=Visibility(row.account_id)),
            partial=True,
        ),
    )
    text = f"schedule {row.description} ran"
    record_event(connection, caller, action.event, text, about_schedule(row.id, row.uuid, target))


def skip_occurrence(
    connection: Connection, *, system: System, schedule_id: int, vm_id: int | None, why: str
) -> None:
    """Set the next run of a schedule whose VMs cannot be processed now, and record ``why`` as an event."""
    del system
    row = _lock_due(connection, schedule_id, vm_id)
    if row is None:
        return
    _plan_next(connection, row)
    text = f"schedule {row.description} was skipped: {why}"
    caller, target = owning_caller(connection, row.account_id), store.read_target(connection, row)
    record_event(connection, caller, ACTIONS[row.action].event, text, about_schedule(row.id, row.uuid, target))


def about_schedule(schedule_id: int, uuid: UUID, target: EntityRef | None) -> Instance:
    """Return the object of a schedule's events: its single VM, or the schedule."""
    if target is not None and target.entity is Entity.VIRTUAL_MACHINE:
        return Instance("VirtualMachine", target.id, target.uuid)
    return Instance("VMSchedule", schedule_id, uuid)


_FILTERS = {
    Entity.VIRTUAL_MACHINE: "ids",
    Entity.INSTANCE_GROUP: "groupid",
    Entity.DEPLOYMENT: "deploymentid",
}


def _filters(schedule: Row[Any], target: EntityRef | None) -> Mapping[str, Any]:
    if target is None:
        return {"tags": schedule.tags}
    return {_FILTERS[target.entity]: (target,) if target.entity is Entity.VIRTUAL_MACHINE else target}


def _lock_due(connection: Connection, schedule_id: int, vm_id: int | None) -> Row[Any] | None:
    if vm_id is not None:
        lock_vms(connection, [vm_id])
    return store.lock_due_schedule(connection, schedule_id)


def _plan_next(connection: Connection, row: Row[Any]) -> datetime | None:
    """Set the next run of the schedule, and return the run that is due now, or None if all due runs are too old."""
    most = timedelta(seconds=read_configuration(connection).number("schedule.missed.max"))
    schedule = CronSchedule(row.schedule, ZoneInfo(row.time_zone), row.start_date, row.end_date)
    due = find_due(schedule, row.next_run, row.now, most)
    changes = {"next_run": due.following, "last_run": due.at or row.next_run}
    store.update_schedule(
        connection, row.id, changes if due.following is not None else {**changes, "enabled": False}
    )
    return due.at
