"""Snapshot policies: create, update and delete. The sweeper takes their snapshots and deletes old ones.

One transaction creates the job of a snapshot and sets the policy's next time. Therefore each time leads to one
snapshot, with any number of sweepers and also if one of them dies. If the snapshot cannot be taken, it is tried
again after ``AGAIN_S`` seconds until the policy's next time. Old snapshots are deleted once their number exceeds
the policy's maximum.

Lock order: ``Lock.VOLUME`` of the volume, then the policy's row, then the rows of a snapshot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.schedules.snapshot_schedules import FORMS, Interval, Schedule
from bulkdeploy.drivers.abilities.snapshots import VolumeSnapshots
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.volumes.snapshots import create_snapshot, delete_snapshot, require_zone_of_volume
from bulkdeploy.services.volumes.volumes import owned_volume
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.accounts.resource_limits import limits_binding, read_limits
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.rows.due_rows import read_clock
from bulkdeploy.store.volumes import snapshot_policies as store
from bulkdeploy.store.volumes.volume_changes import READY, known_volume, read_vm, take_volume

AGAIN_S = 300
UPDATE_CLASS = "org.apache.cloudstack.api.command.admin.snapshot.UpdateSnapshotPolicyCmd"


@dataclass(frozen=True, slots=True)
class NewPolicy:
    """A policy to create; ``schedule`` is written in the form of its interval (``FORMS``).

    ``zones`` are the zones in which snapshots are requested; only the zone of the volume is possible.
    """

    volume: EntityRef
    interval: Interval
    schedule: str
    time_zone: str
    most: int
    display: bool = True
    zones: Sequence[EntityRef] = ()


def create_policy(connection: Connection, system: System, caller: Caller, requested: NewPolicy) -> EntityRef:
    """Create a snapshot policy, or change the volume's existing policy of the same interval.

    Raises:
        PermissionDenied: the caller may not access the volume.
        InvalidParameter: the volume was deleted, is not attached to a VM whose hypervisor supports volume
            snapshots, is in another zone, or does not exist in a pool yet; or the schedule or the number of
            snapshots is not valid.
    """
    schedule = _schedule(requested.interval, requested.schedule, requested.time_zone)
    volume, owner = owned_volume(connection, caller, requested.volume, "volumeid")
    require_zone_of_volume(volume, requested.zones, "zoneids")
    _check_volume(connection, system, volume, str(requested.volume.uuid))
    _check_number(connection, owner, requested)
    policy = store.save_policy(
        connection,
        {
            "account_id": volume.account_id,
            "volume_id": volume.id,
            "interval_type": requested.interval.value,
            "schedule": requested.schedule,
            "time_zone": requested.time_zone,
            "max_snapshots": requested.most,
            "display": requested.display,
            "names_zone": bool(requested.zones),
            "next_run": schedule.next_after(read_clock(connection)),
        },
    )
    text = f"made snapshot policy {policy.name} of volume {volume.name}"
    record_event(connection, caller, EventType.SNAPSHOT_POLICY_CREATE, text, _policy_reference(policy), owner)
    return policy


def update_policy(connection: Connection, caller: Caller, ref: EntityRef, *, display: bool | None) -> JobTicket:
    """Show a policy to users, or hide it. A hidden policy takes no snapshots.

    Raises:
        InvalidParameter: the policy was deleted.
        PermissionDenied: the caller may not access the policy's volume.
    """
    (policy,), (owner,) = _owned_policies(connection, caller, [ref])
    if display is not None and display != policy.display:
        schedule = _schedule(Interval(policy.interval_type), policy.schedule, policy.time_zone)
        next_run = schedule.next_after(read_clock(connection))
        store.update_policy(connection, ref.id, {"display": display, "next_run": next_run, "retry_at": None})
    text = f"updated snapshot policy {policy.interval_type} of a volume"
    record_event(connection, caller, EventType.SNAPSHOT_POLICY_UPDATE, text, _policy_reference(ref), owner)
    row = store.read_policy(connection, ref.id)
    return done_with_object(connection, caller, UPDATE_CLASS, "snapshotpolicy", row, _policy_reference(ref))


def delete_policies(connection: Connection, caller: Caller, refs: Sequence[EntityRef]) -> None:
    """Delete snapshot policies. Snapshots that the policies created are not deleted.

    Raises:
        InvalidParameter: one of the policies was deleted already.
        PermissionDenied: the caller may not access one of the volumes.
    """
    policies, owners = _owned_policies(connection, caller, refs)
    store.remove_policies(connection, [policy.id for policy in policies])
    for ref, owner in zip(refs, owners, strict=True):
        text = f"deleted snapshot policy {ref.name} of a volume"
        record_event(connection, caller, EventType.SNAPSHOT_POLICY_DELETE, text, _policy_reference(ref), owner)


def take_snapshot(connection: Connection, *, system: System, policy_id: int, volume_id: int) -> None:
    """Create the job of a policy's snapshot if the policy is due, and set the policy's next time.

    Raises:
        BulkDeployError: the snapshot cannot be taken now. The caller then calls ``postpone_snapshot``.
    """
    volume = take_volume(connection, volume_id)
    policy = store.lock_due_policy(connection, policy_id)
    if policy is None:
        return
    if volume is None:
        store.remove_policies(connection, [policy_id])
        return
    ref = EntityRef(Entity.VOLUME, volume.id, volume.uuid, volume.name)
    of_policy = {"policy_id": policy_id, "interval_type": policy.interval_type}
    create_snapshot(connection, system, default_admin(connection), ref, None, policy=of_policy)
    store.update_policy(connection, policy_id, {"next_run": _next_run(policy), "retry_at": None})


def postpone_snapshot(connection: Connection, *, system: System, policy_id: int, volume_id: int, why: str) -> None:
    """Schedule a retry of a snapshot that could not be taken, or skip it if the policy's next run comes first.

    The first failure is recorded as an event of the owner, with ``why`` as the reason.
    """
    del system
    volume = take_volume(connection, volume_id)
    policy = store.lock_due_policy(connection, policy_id)
    if policy is None or volume is None:
        return
    again, following = policy.now + timedelta(seconds=AGAIN_S), _next_run(policy)
    later = {"retry_at": again} if again < following else {"retry_at": None, "next_run": following}
    store.update_policy(connection, policy_id, later)
    if policy.retry_at is None:
        text = f"snapshot policy {policy.interval_type} took no snapshot of volume {volume.name}: {why}"
        owner = owners_by_id(connection, [policy.account_id])[policy.account_id]
        about = Instance("Volume", volume.id, volume.uuid)
        record_event(connection, default_admin(connection), EventType.SNAPSHOT_CREATE, text, about, owner)


def delete_surplus_snapshot(connection: Connection, *, system: System, snapshot: EntityRef) -> None:
    """Create the job that deletes a snapshot in excess of the number that its policy keeps."""
    delete_snapshot(connection, system, default_admin(connection), snapshot)


def _next_run(policy: Row[Any]) -> datetime:
    """Return the policy's next time, which a clock that was set back does not repeat."""
    schedule = _schedule(Interval(policy.interval_type), policy.schedule, policy.time_zone)
    return schedule.next_after(max(policy.now, policy.next_run))


def _schedule(interval: Interval, written: str, time_zone: str) -> Schedule:
    schedule = Schedule.parse(interval, written, ZoneInfo(time_zone))
    if schedule is None:
        _, form = FORMS[interval]
        raise InvalidParameter("schedule", written, f"must be {form} if intervaltype is {interval.value}")
    return schedule


def _check_volume(connection: Connection, system: System, volume: Row[Any], shown: str) -> None:
    if volume.vm_id is None:
        rule = "it is not attached to a virtual machine; only attached volumes can have snapshots"
        raise InvalidParameter("volumeid", shown, rule)
    hypervisor = read_vm(connection, volume.vm_id).hypervisor
    require_ability(system.drivers, hypervisor, VolumeSnapshots, "volumeid", shown)
    if volume.state != READY:
        rule = f"it is {volume.state}; it must be Ready: start its virtual machine once"
        raise InvalidParameter("volumeid", shown, rule)


def _check_number(connection: Connection, owner: Owner, requested: NewPolicy) -> None:
    setting = f"snapshot.max.{requested.interval.value.lower()}"
    most = read_configuration(connection).number(setting)
    if requested.most > most:
        raise InvalidParameter("maxsnaps", requested.most, f"must be at most {most} ({setting})")
    if owner.is_root_admin:
        return
    book = read_limits(connection, {owner.account_id}, {owner.lineage})
    for limits in limits_binding(book, owner).values():
        limit = limits.get(ResourceType.SNAPSHOT, -1)
        if limit != -1 and requested.most > limit:
            rule = f"must not exceed the limit of snapshots of the account or of a domain above it, {limit}"
            raise InvalidParameter("maxsnaps", requested.most, rule)


def _owned_policies(
    connection: Connection, caller: Caller, refs: Sequence[EntityRef]
) -> tuple[list[Row[Any]], list[Owner]]:
    """Lock the volumes of policies that the caller may change. Return the policies and their owners in order."""
    ids = [ref.id for ref in refs]
    for volume_id in store.volumes_of_policies(connection, ids):
        take_volume(connection, volume_id)
    found = {row.id: row for row in store.live_policies(connection, ids)}
    owners = []
    for ref in refs:
        if ref.id not in found:
            raise InvalidParameter("id", str(ref.uuid), "the snapshot policy was deleted")
        account_id = known_volume(connection, found[ref.id].volume_id).account_id
        owners.append(require_access(connection, caller, account_id, f"snapshot policy {ref.uuid}"))
    return [found[ref.id] for ref in refs], owners


def _policy_reference(policy: EntityRef) -> Instance:
    return Instance("SnapshotPolicy", policy.id, policy.uuid)
