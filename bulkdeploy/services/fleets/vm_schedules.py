"""Operations on VM schedules: create, update and delete; ``scheduled_operations`` runs the schedules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.schedules.cron_schedules import CronSchedule, describe_cron
from bulkdeploy.services.fleets.scheduled_operations import ACTIONS, about_schedule
from bulkdeploy.services.owned_entities import lock_all_own, lock_own
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.virtual_machines.virtual_machines import require_right
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.rows.due_rows import read_clock
from bulkdeploy.store.virtual_machines import vm_schedules as store
from bulkdeploy.store.virtual_machines.guests import lock_vms

NOUN = "schedule"
BEGINS_AFTER = timedelta(minutes=1)
"""A schedule without a start date begins so much later than the call, as in CloudStack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule to create.

    Attributes:
        target: the VM, instance group or bulk deployment on which the schedule acts. None selects the caller's VMs
            with ``tags``.
        parameter: the name of the parameter that names the target.
        start, end: the first and the last moment of the schedule; without a time zone they are in the time zone
        ``zone``.
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
    """Create a schedule that runs an action on VMs at the times of a cron expression.

    Raises:
        PermissionDenied: the caller may not access the target, or may not stop VMs by force.
        InvalidParameter: the target was deleted, or the expression or a date is not valid.
    """
    owner = _lock_target(connection, caller, requested)
    if ACTIONS[requested.action].is_forced:
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
    text, about = f"created schedule {made.name}", about_schedule(made.id, made.uuid, target)
    record_event(connection, caller, EventType.VM_SCHEDULE_CREATE, text, about, owner)
    return made


def update_schedule(connection: Connection, caller: Caller, ref: EntityRef, changes: Mapping[str, Any]) -> None:
    """Change a schedule: ``description``, ``schedule``, ``timezone``, ``startdate``, ``enddate``, ``enabled``.

    Raises:
        InvalidParameter: the schedule was deleted, or a new value is not valid.
        PermissionDenied: the caller may not access the schedule.
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
    # An occurrence that was handled is not returned again, even if the clock was set back.
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
    about = about_schedule(row.id, row.uuid, store.read_target(connection, row))
    record_event(connection, caller, EventType.VM_SCHEDULE_UPDATE, text, about, owner)


def delete_schedules(
    connection: Connection, caller: Caller, refs: Sequence[EntityRef], vm: EntityRef | None
) -> None:
    """Delete schedules. Jobs that the schedules have already created continue.

    If ``vm`` is given, all of them must be schedules of this VM.

    Raises:
        InvalidParameter: a schedule was deleted already, or does not belong to the VM.
        PermissionDenied: the caller may not access one of the schedules.
    """
    found = lock_all_own(connection, caller, refs, NOUN)
    for ref, (row, _) in zip(refs, found, strict=True):
        if vm is not None and row.vm_id != vm.id:
            raise InvalidParameter("id", str(ref.uuid), f"it is not a schedule of virtual machine {vm.uuid}")
    store.remove_schedules(connection, [row.id for row, _ in found])
    for row, owner in found:
        about = about_schedule(row.id, row.uuid, store.read_target(connection, row))
        text = f"deleted schedule {row.description}"
        record_event(connection, caller, EventType.VM_SCHEDULE_DELETE, text, about, owner)


_COLUMNS = {
    Entity.VIRTUAL_MACHINE: "vm_id",
    Entity.INSTANCE_GROUP: "group_id",
    Entity.DEPLOYMENT: "deployment_id",
}


def _lock_target(connection: Connection, caller: Caller, requested: NewSchedule) -> Owner:
    """Return the owner of the schedule's VMs.

    If the target is a VM or a group, lock it until the transaction ends.
    """
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
