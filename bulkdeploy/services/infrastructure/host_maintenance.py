"""Moving VMs off hosts: for maintenance, which blocks new VMs until it is cancelled, or without maintenance."""

from collections.abc import Collection
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.domain.jobs import PLANNED
from bulkdeploy.domain.virtual_machines.virtual_machines import one_of
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.provisioning.kinds.infrastructure.migrate_host import MIGRATE_HOST
from bulkdeploy.provisioning.kinds.infrastructure.prepare_host_for_maintenance import PREPARE_HOST
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.scheduling.moves import MIGRATING
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.planned_moves import MovePlan, PlanWanted, moves_off
from bulkdeploy.services.sending import send_jobs, submit_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.infrastructure.host_maintenance import (
    holds_vms,
    lock_host,
    set_resource_state,
    unfinished_host_jobs,
    wake_waiting,
)
from bulkdeploy.store.infrastructure.hosts import host_rows
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event

CANCELLABLE = frozenset(
    {
        HostResourceState.PREPARE_FOR_MAINTENANCE,
        HostResourceState.MAINTENANCE,
        HostResourceState.ERROR_IN_MAINTENANCE,
        HostResourceState.ERROR_IN_PREPARE_FOR_MAINTENANCE,
    }
)
CANCEL_COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.host.CancelHostMaintenanceCmd"


def prepare_host_for_maintenance(
    connection: Connection, system: System, caller: Caller, host: EntityRef, plan: PlanWanted | None = None
) -> JobTicket | MovePlan:
    """Exclude the host from placement, and create the job that moves its VMs away; the job's result is the host.

    If ``plan`` is given, the VMs move as the plan shows; if it requests a dry run, only the planned moves are
    returned.

    Raises:
        InvalidParameter: the host was removed, is in maintenance or preparing for it, or its hypervisor cannot
            migrate its VMs; or under the same conditions as ``plan_moves``.
        PlanStale: under the same conditions as ``plan_moves``.
        ResourceUnavailable: under the same conditions as ``moves_off``.
    """
    row = _locked(connection, host, PREPARE_HOST.states)
    if holds_vms(connection, host.id):
        require_ability(system.drivers, row.hypervisor, LiveMigration, "id", str(host.uuid))
    shown = moves_off(connection, caller, host.id, MIGRATING, plan)
    if shown is not None and plan is not None and plan.dry_run:
        return shown
    set_resource_state(connection, [host.id], HostResourceState.PREPARE_FOR_MAINTENANCE)
    job = PREPARE_HOST.new_job(
        _host_reference(host),
        f"asked to prepare for maintenance host {row.name}",
        account_id=caller.owner.account_id,
        user_id=caller.user_id,
        params={} if shown is None else {PLANNED: shown.hosts()},
    )
    (ticket,) = submit_jobs(connection, system.job_queue, [job])
    return ticket


def migrate_host(
    connection: Connection, system: System, caller: Caller, host: EntityRef, plan: PlanWanted | None = None
) -> JobTicket | MovePlan:
    """Create the job that moves all present VMs off a host.

    The host keeps its resource state, so new VMs may be placed on it. If ``plan`` is given, the VMs move as the
    plan shows; if it requests a dry run, only the planned moves are returned.

    Raises:
        InvalidParameter: the host was removed, or its hypervisor cannot migrate its VMs; or under the same
            conditions as ``plan_moves``.
        PlanStale: under the same conditions as ``plan_moves``.
        ResourceUnavailable: under the same conditions as ``moves_off``.
    """
    row = _locked(connection, host, MIGRATE_HOST.states)
    if holds_vms(connection, host.id):
        require_ability(system.drivers, row.hypervisor, LiveMigration, "id", str(host.uuid))
    shown = moves_off(connection, caller, host.id, MIGRATING, plan)
    if shown is not None and plan is not None and plan.dry_run:
        return shown
    job = MIGRATE_HOST.new_job(
        _host_reference(host),
        f"asked to move all VMs off host {row.name}",
        account_id=caller.owner.account_id,
        user_id=caller.user_id,
        params={} if shown is None else {PLANNED: shown.hosts()},
    )
    (ticket,) = submit_jobs(connection, system.job_queue, [job])
    return ticket


def cancel_host_maintenance(connection: Connection, system: System, caller: Caller, host: EntityRef) -> JobTicket:
    """Enable a host for placement again, and return the job of the call, which has already ended.

    Moves that have started are completed. VMs that have not moved yet stay on the host.

    Raises:
        InvalidParameter: the host was removed, or is neither in maintenance nor preparing for it.
    """
    row = _locked(connection, host, CANCELLABLE)
    set_resource_state(connection, [host.id], HostResourceState.ENABLED)
    woken = wake_waiting(connection, unfinished_host_jobs(connection, host.id), INTERACTIVE)
    send_jobs(connection, system.job_queue, [JobMessage(job_id, kind, INTERACTIVE) for job_id, kind in woken])
    about = _host_reference(host)
    text = f"cancelled the maintenance of host {row.name}"
    record_event(connection, caller, EventType.HOST_MAINTENANCE_CANCEL, text, about)
    shown = host_rows(connection, [host.id])[host.id]
    return done_with_object(connection, caller, CANCEL_COMMAND_CLASS, "host", shown, about)


def _locked(connection: Connection, host: EntityRef, states: Collection[StrEnum]) -> Row[Any]:
    """Lock the host and return its row. Raises InvalidParameter unless its resource state is one of ``states``."""
    row = lock_host(connection, host.id)
    if row.removed is not None:
        raise InvalidParameter("id", str(host.uuid), "the host was removed")
    if row.resource_state not in states:
        rule = f"host {row.name} is in resource state {row.resource_state}; it must be {one_of(states)}"
        raise InvalidParameter("id", str(host.uuid), rule)
    return row


def _host_reference(host: EntityRef) -> Instance:
    return Instance(PREPARE_HOST.instance_type, host.id, host.uuid)
