"""Schedules of virtual machines: made, changed and deleted by calls; the sweeper runs their bulk operations.

One transaction makes the jobs of an occurrence and plans the next one. Each occurrence therefore runs once, with
any number of sweepers and whenever one of them dies. Occurrences that passed while no sweeper ran are made up for
by one run if the last of them is less than ``schedule.missed.max`` seconds old.

A schedule acts in the name of the account that it belongs to, with the rights of a user.

Lock order: the row of the single VM, then the schedule's row, then the VMs of the operation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Caller, Owner, RoleType
from bulkdeploy.domain.cron_schedules import CronSchedule, describe_cron
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.occurrences import find_due
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.reboot_virtual_machine import REBOOT
from bulkdeploy.provisioning.kinds.start_virtual_machine import START
from bulkdeploy.provisioning.kinds.stop_virtual_machine import STOP
from bulkdeploy.services.owned_entities import lock_all_own, lock_own
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.bulk_operations import BulkRequest, VmSelection, run_bulk_operation
from bulkdeploy.services.virtual_machines.virtual_machines import require_right
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configuration import read_configuration
from bulkdeploy.store.due_rows import read_clock
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.virtual_machines import vm_schedules as store
from bulkdeploy.store.virtual_machines.guests import lock_vms
from bulkdeploy.store.visibility import Visibility

NOUN = "schedule"
BEGINS_AFTER = timedelta(minutes=1)
"""A schedule without a start date begins so much later than the call, as in CloudStack."""


@dataclass(frozen=True, slots=True)
class ScheduledAction:
    """What a schedule does to its VMs: the bulk operation, the kind and parameters of its jobs, and its event."""

    command: str
    kind: JobKind
    params: Mapping[str, Any]
    event: EventType


ACTIONS: Mapping[str, ScheduledAction] = {
    "START": ScheduledAction("bulkStartVirtualMachine", START, {}, EventType.VM_SCHEDULE_START),
    "STOP": ScheduledAction("bulkStopVirtualMachine", STOP, {"forced": False}, EventType.VM_SCHEDULE_STOP),
    "REBOOT": ScheduledAction("bulkRebootVirtualMachine", REBOOT, {"forced": False}, EventType.VM_SCHEDULE_REBOOT),
    "FORCE_STOP": ScheduledAction(
        "bulkStopVirtualMachine", STOP, {"forced": True}, EventType.VM_SCHEDULE_FORCE_STOP
    ),
    "FORCE_REBOOT": ScheduledAction(
        "bulkRebootVirtualMachine", REBOOT, {"forced": True}, EventType.VM_SCHEDULE_FORCE_REBOOT
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule to create.

    Attributes:
        target: the VM, instance group or bulk deployment that it acts on. None: the caller's VMs with ``tags``.
        parameter: the name of the parameter that gave the target.
        start, end: the first and the last moment of the schedule; without a time zone they are local to ``zone``.
    """

    target: EntityRef | None
    parameter: str
    tags: Sequence[Mapping[str, str]]
    action: str
    expression: str
    zone: str
    start: datetime | None
    end: datetime | None
    enabled: bool
    description: str | None


def create_schedule(connection: Connection, caller: Caller, requested: NewSchedule) -> EntityRef:
    """Create a schedule.

    Raises:
        PermissionDenied: the caller may not touch the target, or may not stop VMs with force.
        InvalidParameter: the target was deleted; or the expression or a date is not possible.
    """
    owner = _lock_target(connection, caller, requested)
    if ACTIONS[requested.action].params.get("forced"):
        require_right(connection, caller, "allow.user.force.stop.vm", "schedule a forced stop or reboot")
    now = read_clock(connection)
    zone = ZoneInfo(requested.zone)
    start = now + BEGINS_AFTER if requested.start is None else _in_zone(requested.start, zone)
    end = None if requested.end is None else _in_zone(requested.end, zone)
    _check_dates(start if requested.start is not None else None, end, now)
    words = _require_cron(requested.expression)
    schedule = CronSchedule(requested.expression, zone, start, end)
    target, ids = requested.target, dict.fromkeys(("vm_id", "group_id", "deployment_id"))
    if target is not None:
        ids[_COLUMNS[target.entity]] = target.id
    made = store.insert_schedule(
        connection,
        {
            **ids,
            "account_id": owner.account_id,
            "tags": None if target is not None else [dict(tag) for tag in requested.tags],
            "description": requested.description or f"{requested.action} - {words}",
            "action": requested.action,
            "schedule": requested.expression,
            "time_zone": requested.zone,
            "start_date": start,
            "end_date": end,
            "enabled": requested.enabled,
            "next_run": schedule.next_after(now),
        },
    )
    text = f"created schedule {made.name}"
    record_event(connection, caller, EventType.VM_SCHEDULE_CREATE, text, _about(made.id, made.uuid, target), owner)
    return made


def update_schedule(connection: Connection, caller: Caller, ref: EntityRef, changes: Mapping[str, Any]) -> None:
    """Change a schedule: ``description``, ``schedule``, ``timezone``, ``startdate``, ``enddate``, ``enabled``.

    Raises:
        InvalidParameter: the schedule was deleted, or a new value is not possible.
        PermissionDenied: the schedule is not the caller's to touch.
    """
    row, owner = lock_own(connection, caller, ref, NOUN)
    now = read_clock(connection)
    zone = ZoneInfo(changes.get("timezone", row.time_zone))
    start = _in_zone(changes["startdate"], zone) if "startdate" in changes else row.start_date
    end = _in_zone(changes["enddate"], zone) if "enddate" in changes else row.end_date
    _check_dates(start if "startdate" in changes else None, end if "enddate" in changes else None, now)
    if end is not None and end < start:
        raise InvalidParameter("enddate", end.isoformat(), "it must not be before the start date")
    expression = changes.get("schedule", row.schedule)
    _require_cron(expression)
    # An occurrence that was handled is not named again, even if the clock was set back since then.
    after = now if row.last_run is None else max(now, row.last_run)
    store.update_schedule(
        connection,
        row.id,
        {
            "description": changes.get("description", row.description),
            "schedule": expression,
            "time_zone": zone.key,
            "start_date": start,
            "end_date": end,
            "enabled": changes.get("enabled", row.enabled),
            "next_run": CronSchedule(expression, zone, start, end).next_after(after),
        },
    )
    text = f"updated schedule {row.description}"
    about = _about(row.id, row.uuid, store.read_target(connection, row))
    record_event(connection, caller, EventType.VM_SCHEDULE_UPDATE, text, about, owner)


def delete_schedules(
    connection: Connection, caller: Caller, refs: Sequence[EntityRef], vm: EntityRef | None
) -> None:
    """Delete schedules; jobs that they made before continue. With ``vm`` they must be schedules of this VM.

    Raises:
        InvalidParameter: a schedule was deleted already, or is not of the VM.
        PermissionDenied: a schedule is not the caller's to touch.
    """
    found = lock_all_own(connection, caller, refs, NOUN)
    for ref, (row, _) in zip(refs, found, strict=True):
        if vm is not None and row.vm_id != vm.id:
            raise InvalidParameter("id", str(ref.uuid), f"it is not a schedule of virtual machine {vm.uuid}")
    store.remove_schedules(connection, [row.id for row, _ in found])
    for row, owner in found:
        about = _about(row.id, row.uuid, store.read_target(connection, row))
        text = f"deleted schedule {row.description}"
        record_event(connection, caller, EventType.VM_SCHEDULE_DELETE, text, about, owner)


def run_schedule(connection: Connection, *, system: System, schedule_id: int, vm_id: int | None) -> None:
    """Start the bulk operation of a schedule if it is due, and plan its next occurrence.

    Raises:
        BulkDeployError: no VM of the schedule can be processed; then ``skip_occurrence``.
    """
    row = _lock_due(connection, schedule_id, vm_id)
    if row is None:
        return
    target = store.read_target(connection, row)
    if target is None and row.tags is None:
        store.remove_schedules(connection, [row.id])
        return
    occurrence = _plan_next(connection, row)
    action, caller = ACTIONS[row.action], _owning_caller(connection, row.account_id)
    if occurrence is None:
        text = f"schedule {row.description} skipped its occurrence of {row.next_run:%Y-%m-%d %H:%M} UTC: it is past"
        record_event(connection, caller, action.event, text, _about(row.id, row.uuid, target))
        return
    run_bulk_operation(
        connection,
        system,
        caller,
        BulkRequest(
            command=action.command,
            kind=action.kind,
            selection=VmSelection(filters=_filters(row, target), visible=Visibility(row.account_id)),
            params=action.params,
            find_refused=partial(_find_unaffected, kind=action.kind),
            partial=True,
        ),
    )
    text = f"schedule {row.description} ran"
    record_event(connection, caller, action.event, text, _about(row.id, row.uuid, target))


def skip_occurrence(
    connection: Connection, *, system: System, schedule_id: int, vm_id: int | None, why: str
) -> None:
    """Plan the next occurrence of a schedule whose VMs cannot be processed now, and record why."""
    del system
    row = _lock_due(connection, schedule_id, vm_id)
    if row is None:
        return
    _plan_next(connection, row)
    text = f"schedule {row.description} was skipped: {why}"
    caller, target = _owning_caller(connection, row.account_id), store.read_target(connection, row)
    record_event(connection, caller, ACTIONS[row.action].event, text, _about(row.id, row.uuid, target))


def _find_unaffected(connection: Connection, vms: Sequence[Row[Any]], kind: JobKind) -> Mapping[int, str]:
    """Return the VMs that an action would not change, such as stopped ones that are to be stopped."""
    del connection
    state = VmState.STOPPED if kind is START else VmState.RUNNING
    return {vm.id: f"the virtual machine is {vm.state}, not {state}" for vm in vms if vm.state != state}


_COLUMNS = {
    Entity.VIRTUAL_MACHINE: "vm_id",
    Entity.INSTANCE_GROUP: "group_id",
    Entity.DEPLOYMENT: "deployment_id",
}
_FILTERS = {
    Entity.VIRTUAL_MACHINE: "ids",
    Entity.INSTANCE_GROUP: "groupid",
    Entity.DEPLOYMENT: "deploymentid",
}


def _filters(schedule: Row[Any], target: EntityRef | None) -> Mapping[str, Any]:
    if target is None:
        return {"tags": schedule.tags}
    return {_FILTERS[target.entity]: (target,) if target.entity is Entity.VIRTUAL_MACHINE else target}


def _lock_target(connection: Connection, caller: Caller, requested: NewSchedule) -> Owner:
    """Return the owner of the schedule's VMs; a VM or group is locked until the transaction ends."""
    target = requested.target
    if target is None:
        return caller.owner
    if target.entity is Entity.INSTANCE_GROUP:
        return lock_own(connection, caller, target, "instance group", requested.parameter)[1]
    what = f"{requested.parameter} {target.uuid}"
    if target.entity is Entity.DEPLOYMENT:
        return require_access(connection, caller, store.account_of_deployment(connection, target.id), what)
    found = lock_vms(connection, [target.id])
    if not found:
        raise InvalidParameter(requested.parameter, str(target.uuid), "the virtual machine was deleted")
    return require_access(connection, caller, found[0].account_id, what)


def _lock_due(connection: Connection, schedule_id: int, vm_id: int | None) -> Row[Any] | None:
    if vm_id is not None:
        lock_vms(connection, [vm_id])
    return store.lock_due_schedule(connection, schedule_id)


def _plan_next(connection: Connection, row: Row[Any]) -> datetime | None:
    """Plan the next occurrence, and return the one to run now, or None if each that passed is too old."""
    most = timedelta(seconds=read_configuration(connection).number("schedule.missed.max"))
    schedule = CronSchedule(row.schedule, ZoneInfo(row.time_zone), row.start_date, row.end_date)
    due = find_due(schedule, row.next_run, row.now, most)
    changes = {"next_run": due.following, "last_run": due.at or row.next_run}
    store.update_schedule(
        connection, row.id, changes if due.following is not None else {**changes, "enabled": False}
    )
    return due.at


def _owning_caller(connection: Connection, account_id: int) -> Caller:
    """Return the system's user in the name of an account, with a user's rights."""
    owner = owners_by_id(connection, [account_id])[account_id]
    return replace(default_admin(connection), owner=owner, role_type=RoleType.USER)


def _require_cron(expression: str) -> str:
    words = describe_cron(expression)
    if words is None:
        rule = (
            "must be a cron expression of five fields, such as 0 8 * * 1-5 for eight o'clock from Monday to Friday"
        )
        raise InvalidParameter("schedule", expression, rule)
    return words


def _in_zone(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment


def _check_dates(start: datetime | None, end: datetime | None, now: datetime) -> None:
    for name, moment in (("startdate", start), ("enddate", end)):
        if moment is not None and moment < now:
            raise InvalidParameter(name, moment.isoformat(), f"it must not be before now, {now.isoformat()}")
    if start is not None and end is not None and end < start:
        raise InvalidParameter("enddate", end.isoformat(), "it must not be before the start date")


def _about(schedule_id: int, uuid: Any, target: EntityRef | None) -> Instance:
    if target is not None and target.entity is Entity.VIRTUAL_MACHINE:
        return Instance("VirtualMachine", target.id, target.uuid)
    return Instance("VMSchedule", schedule_id, uuid)
