"""Host maintenance: VMs are moved away by a job; cancelling lets the host take VMs again, at once."""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import CANCEL_MAINTENANCE_COMMAND_CLASS, COMMAND_CLASS, HOST, JobKind
from bulkdeploy.domain.topology import HostResourceState
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.services.done_jobs import done_with_object
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.action_events import SCHEDULED, ActionEvent, write_events
from bulkdeploy.store.done_jobs import Instance
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.events import record_event
from bulkdeploy.store.host_maintenance import (
    insert_host_job,
    lock_host,
    set_resource_state,
    unfinished_host_jobs,
    wake_waiting,
)
from bulkdeploy.store.hosts import host_rows

PREPARABLE = (
    HostResourceState.ENABLED,
    HostResourceState.DISABLED,
    HostResourceState.ERROR_IN_MAINTENANCE,
    HostResourceState.ERROR_IN_PREPARE_FOR_MAINTENANCE,
)
CANCELLABLE = (
    HostResourceState.PREPARE_FOR_MAINTENANCE,
    HostResourceState.MAINTENANCE,
    HostResourceState.ERROR_IN_MAINTENANCE,
    HostResourceState.ERROR_IN_PREPARE_FOR_MAINTENANCE,
)


def prepare_host_for_maintenance(system: System, caller: Caller, host: EntityRef) -> JobTicket:
    """Take the host out of placement now, and have its VMs moved away; the job's result is the host.

    Raises:
        InvalidParameter: the host was removed, or is in maintenance or on its way there.
    """
    prepare = partial(_prepare, caller=caller, host=host)
    job_id, ticket = run_transaction(system.engine, prepare, CrashPoint.SUBMIT_COMMIT)
    send_jobs(system, [JobMessage(job_id, JobKind.PREPARE_HOST, INTERACTIVE)])
    return ticket


def cancel_host_maintenance(system: System, caller: Caller, host: EntityRef) -> JobTicket:
    """Let the host take VMs again; those that are on their way arrive, others stay. The job is done with the call.

    Raises:
        InvalidParameter: the host was removed, or is not in maintenance nor on its way there.
    """
    cancel = partial(_cancel, caller=caller, host=host)
    messages, ticket = run_transaction(system.engine, cancel, CrashPoint.SUBMIT_COMMIT)
    send_jobs(system, messages)
    return ticket


def _prepare(connection: Connection, *, caller: Caller, host: EntityRef) -> tuple[int, JobTicket]:
    row = _locked(connection, host, PREPARABLE)
    set_resource_state(connection, [host.id], HostResourceState.PREPARE_FOR_MAINTENANCE)
    job_id, job_uuid = insert_host_job(
        connection,
        JobKind.PREPARE_HOST,
        COMMAND_CLASS[JobKind.PREPARE_HOST],
        account_id=caller.owner.account_id,
        user_id=caller.user_id,
        host_id=host.id,
        queue=INTERACTIVE,
    )
    text = f"asked to prepare for maintenance host {row.name}"
    write_events(connection, [ActionEvent(job_id, EventType.HOST_MAINTENANCE_PREPARE, SCHEDULED, text)])
    return job_id, JobTicket(str(job_uuid))


def _cancel(connection: Connection, *, caller: Caller, host: EntityRef) -> tuple[list[JobMessage], JobTicket]:
    row = _locked(connection, host, CANCELLABLE)
    set_resource_state(connection, [host.id], HostResourceState.ENABLED)
    woken = wake_waiting(connection, unfinished_host_jobs(connection, host.id), INTERACTIVE)
    about = Instance(HOST, host.id, host.uuid)
    text = f"cancelled the maintenance of host {row.name}"
    record_event(connection, caller, EventType.HOST_MAINTENANCE_CANCEL, text, about)
    ticket = done_with_object(
        connection,
        caller,
        CANCEL_MAINTENANCE_COMMAND_CLASS,
        "host",
        host_rows(connection, [host.id])[host.id],
        about,
    )
    return [JobMessage(job_id, kind, INTERACTIVE) for job_id, kind in woken], ticket


def _locked(connection: Connection, host: EntityRef, states: tuple[HostResourceState, ...]) -> Row[Any]:
    """The host's row, locked, where it is in one of these states."""
    row = lock_host(connection, host.id)
    if row.removed is not None:
        raise InvalidParameter("id", str(host.uuid), "the host was removed")
    if row.resource_state not in states:
        accepted = ", ".join(state.value for state in states)
        rule = f"host {row.name} is in resource state {row.resource_state}; it must be one of: {accepted}"
        raise InvalidParameter("id", str(host.uuid), rule)
    return row
