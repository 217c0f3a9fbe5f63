"""Jobs of hosts. Rows alone decide them.

Each time one is leased it looks what is left to be done, makes jobs for VMs, and waits until one of them ends.
Such a job needs no driver and no thread. What it does is done in the transaction that takes its lease, so dying
anywhere loses nothing: the next look sees what is there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import COMMAND_CLASS, JobKind
from bulkdeploy.domain.topology import HostResourceState
from bulkdeploy.provisioning.migrate_virtual_machine import FROM_HOST, MigrateVirtualMachine
from bulkdeploy.provisioning.outcome import (
    INTERNAL_ERROR,
    RESOURCE_UNAVAILABLE,
    Failed,
    Outcome,
    Paused,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.steps import OVERDUE, why_overdue
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.store.action_events import SCHEDULED, ActionEvent, write_events
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.host_maintenance import (
    Leaving,
    lock_host,
    lock_vms_to_move,
    look_at_leaving,
    submitter_of,
)
from bulkdeploy.store.jobs import LeasedJob, NewJob, insert_jobs

LOOK_AGAIN_S = 2.0
"""The end of a VM's job wakes the host's; this is the net below."""

REASONS_SHOWN = 5

EMPTIED = Settlement(host_state=HostResourceState.MAINTENANCE)
NOT_EMPTIED = Settlement(host_state=HostResourceState.ERROR_IN_PREPARE_FOR_MAINTENANCE)


@dataclass(frozen=True, slots=True)
class HostAction:
    """A kind of job of hosts: the type of its events, and the action in words."""

    event_type: EventType
    action: str


HOST_ACTIONS: Mapping[JobKind, HostAction] = {
    JobKind.PREPARE_HOST: HostAction(EventType.HOST_MAINTENANCE_PREPARE, "preparing for maintenance host")
}


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a host came to: its name, how the job goes on, and messages of jobs made."""

    host_name: str
    outcome: Outcome
    messages: list[JobMessage] = field(default_factory=list)


def prepare_host(connection: Connection, job: LeasedJob) -> Look:
    """Move VMs off the host, some at a time, until all are gone or those left cannot go.

    Claims tell when it is empty: of VMs there, and of migrations that have not arrived elsewhere.
    """
    host = lock_host(connection, job.vm_id)
    if host.resource_state == HostResourceState.MAINTENANCE:
        return Look(host.name, Succeeded(EMPTIED))
    if host.resource_state != HostResourceState.PREPARE_FOR_MAINTENANCE:
        why = f"The maintenance of host {host.name} was cancelled"
        return Look(host.name, Failed(INTERNAL_ERROR, why, Settlement()))
    left = look_at_leaving(connection, job.vm_id, job.id)
    if left.claims == 0:
        return Look(host.name, Succeeded(EMPTIED))
    if OVERDUE in job.progress:
        return Look(
            host.name,
            _not_emptied(host.name, f"{why_overdue(job.progress)}; {left.claims} VM(s) have not left it", left),
        )
    if not left.to_move and not left.moving and len(left.failures) == left.claims:
        return Look(host.name, _not_emptied(host.name, f"{left.claims} VM(s) could not be moved", left))
    messages = _move_some(connection, job, left)
    return Look(host.name, Paused(LOOK_AGAIN_S, job.progress), messages)


def _move_some(connection: Connection, job: LeasedJob, left: Leaving) -> list[JobMessage]:
    """Jobs that migrate VMs off the host; no more at a time than the operator allows."""
    places = read_configuration(connection).number("host.maintenance.migrations.max") - left.moving
    if places <= 0 or not left.to_move:
        return []
    vms = lock_vms_to_move(connection, left.to_move, places)
    account_id = submitter_of(connection, job.id)
    cmd, params = COMMAND_CLASS[JobKind.MIGRATE], {FROM_HOST: job.vm_id}
    jobs = [NewJob(JobKind.MIGRATE, cmd, account_id, job.user_id, vm.id, params, job.id) for vm in vms]
    if not jobs:
        return []
    made = insert_jobs(connection, jobs, INTERACTIVE)
    event_type = MigrateVirtualMachine.begin.event_type
    texts = [f"moving Vm {vm.instance_name} off a host that is prepared for maintenance" for vm in vms]
    write_events(
        connection,
        [ActionEvent(job_id, event_type, SCHEDULED, text) for (job_id, _), text in zip(made, texts, strict=True)],
    )
    return [JobMessage(job_id, JobKind.MIGRATE, INTERACTIVE) for job_id, _ in made]


def _not_emptied(host_name: str, why: str, left: Leaving) -> Failed:
    shown = "".join(f". {reason}" for reason in left.failures[:REASONS_SHOWN])
    more = f". And {len(left.failures) - REASONS_SHOWN} more" if len(left.failures) > REASONS_SHOWN else ""
    text = f"Host {host_name} was not prepared for maintenance: {why}{shown}{more}"
    return Failed(RESOURCE_UNAVAILABLE, text, NOT_EMPTIED)
