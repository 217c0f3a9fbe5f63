"""The job that prepares a host for maintenance: it moves the host's VMs to other hosts, a few at a time.

Each time the job runs, it reads which VMs remain, creates migration jobs, and waits until one of them ends. The job
needs no driver. If the worker dies, the next run reads the current state again, so nothing is lost.
"""

from functools import partial

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.provisioning.assignment import PlaceWork
from bulkdeploy.provisioning.child_jobs import make_child_jobs, planned_host
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, JobSteps
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import (
    FOR_MAINTENANCE,
    FROM_HOST,
    HOST,
    MIGRATE,
)
from bulkdeploy.provisioning.outcome import (
    INTERNAL_ERROR,
    RESOURCE_UNAVAILABLE,
    UNCHANGED,
    Failed,
    FinalState,
    Outcome,
    Paused,
    Succeeded,
)
from bulkdeploy.provisioning.progress import OVERDUE, save_progress, why_overdue
from bulkdeploy.queue.job_queue import JobMessage
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.infrastructure.host_maintenance import (
    LeavingVms,
    lock_host,
    lock_vms_to_move,
    look_at_leaving,
    submitter_of,
)
from bulkdeploy.store.jobs.done_jobs import Instance

LOOK_AGAIN_S = 2.0
"""The end of a VM's job wakes the host's; this is the net below."""

REASONS_SHOWN = 5
PREPARE_COMMIT = "prepare.commit"

EMPTIED = FinalState(host_state=HostResourceState.MAINTENANCE)
NOT_EMPTIED = FinalState(host_state=HostResourceState.ERROR_IN_PREPARE_FOR_MAINTENANCE)


class PrepareHostForMaintenance(JobSteps[PlaceWork]):
    """The steps of emptying a host before its maintenance. Parameters: PLANNED if a plan is applied.

    The host is empty when no VM and no unfinished migration has a claim on it.
    """

    @override
    def run(self, work: PlaceWork) -> Outcome:
        return run_transaction(self.tools.engine, partial(self._look, work=work), PREPARE_COMMIT)

    def _look(self, connection: Connection, *, work: PlaceWork) -> Outcome:
        job = work.job
        host = lock_host(connection, job.instance_id)
        if host.resource_state == HostResourceState.MAINTENANCE:
            return Succeeded(EMPTIED)
        if host.resource_state != HostResourceState.PREPARE_FOR_MAINTENANCE:
            return Failed(INTERNAL_ERROR, f"The maintenance of host {work.name} was cancelled", UNCHANGED)
        left = look_at_leaving(connection, job.instance_id, job.id)
        if left.claims == 0:
            return Succeeded(EMPTIED)
        if OVERDUE in job.progress:
            why = f"{why_overdue(job.progress)}; {left.claims} VM(s) have not left the host"
            return self._not_emptied(work, why, left)
        if not left.to_move and not left.moving and len(left.failures) == left.claims:
            return self._not_emptied(work, f"{left.claims} VM(s) could not be moved", left)
        made = _move_some(connection, work, left)
        save_progress(connection, job, job.progress, self.tools.lease_seconds)
        return Paused(LOOK_AGAIN_S, job.progress, made)

    def _not_emptied(self, work: PlaceWork, why: str, left: LeavingVms) -> Failed:
        shown = "".join(f". {reason}" for reason in left.failures[:REASONS_SHOWN])
        more = f". And {len(left.failures) - REASONS_SHOWN} more" if len(left.failures) > REASONS_SHOWN else ""
        return self.failed(work, RESOURCE_UNAVAILABLE, f"{why}{shown}{more}", NOT_EMPTIED)


def _move_some(connection: Connection, work: PlaceWork, left: LeavingVms) -> list[JobMessage]:
    """Create jobs that migrate VMs off the host, at most as many at a time as the setting allows."""
    places = read_configuration(connection).number("host.maintenance.migrations.max") - left.moving
    if places <= 0 or not left.to_move:
        return []
    job = work.job
    account_id = submitter_of(connection, job.id)
    jobs = [
        MIGRATE.new_job(
            Instance(MIGRATE.instance_type, vm.id, vm.uuid),
            f"moving Vm {vm.instance_name} off a host that is prepared for maintenance",
            account_id=account_id,
            user_id=job.user_id,
            params={
                FROM_HOST: job.instance_id,
                FOR_MAINTENANCE: True,
                **planned_host(job.params, vm.id, HOST),
            },
            parent_id=job.id,
        )
        for vm in lock_vms_to_move(connection, left.to_move, places)
    ]
    return make_child_jobs(connection, jobs)


PREPARE_HOST = JobKind(
    name="prepare_host_for_maintenance",
    instance_type=InstanceType.HOST,
    command_class="org.apache.cloudstack.api.command.admin.host.PrepareForHostMaintenanceCmd",
    event_type=EventType.HOST_MAINTENANCE_PREPARE,
    verb="prepare for maintenance",
    action="preparing for maintenance",
    not_done="was not prepared for maintenance",
    states=frozenset(
        {
            HostResourceState.ENABLED,
            HostResourceState.DISABLED,
            HostResourceState.ERROR_IN_MAINTENANCE,
            HostResourceState.ERROR_IN_PREPARE_FOR_MAINTENANCE,
        }
    ),
    move=None,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=NOT_EMPTIED,
    if_never_begun=NOT_EMPTIED,
    result=JobResult.HOST,
    failpoints=frozenset({PREPARE_COMMIT}),
    steps=PrepareHostForMaintenance,
)
