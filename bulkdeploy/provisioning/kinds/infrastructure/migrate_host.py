"""The job that moves the current VMs of a host to other hosts, while the host still accepts new VMs.

Each time the job runs, it creates migration jobs for VMs that have none yet, and waits until one of them ends. The
job needs no driver. If the worker dies, the next run reads the current state again, so nothing is lost.
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
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import FROM_HOST, HOST, MIGRATE
from bulkdeploy.provisioning.outcome import RESOURCE_UNAVAILABLE, UNCHANGED, Outcome, Paused, Succeeded
from bulkdeploy.provisioning.progress import OVERDUE, save_progress, why_overdue
from bulkdeploy.queue.job_queue import JobMessage
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.infrastructure.host_maintenance import (
    count_moves,
    lock_host,
    lock_vms_to_move,
    submitter_of,
    vms_on_host,
)
from bulkdeploy.store.jobs.done_jobs import Instance

LOOK_AGAIN_S = 2.0
"""The end of a VM's job wakes the host's; this is the net below."""

MIGRATE_HOST_COMMIT = "migrate_host.commit"
VMS = "vms"
"""Key of the job's progress: ids of the VMs that were on the host when it began and have no job yet."""


class MigrateHost(JobSteps[PlaceWork]):
    """The steps of moving VMs off a host. Parameters: PLANNED if a plan is applied."""

    @override
    def run(self, work: PlaceWork) -> Outcome:
        return run_transaction(self.tools.engine, partial(self._look, work=work), MIGRATE_HOST_COMMIT)

    def _look(self, connection: Connection, *, work: PlaceWork) -> Outcome:
        job = work.job
        left = job.progress.get(VMS)
        if left is None:
            lock_host(connection, job.instance_id)  # waits until claims in progress are committed
            left = vms_on_host(connection, job.instance_id)
        moving = count_moves(connection, job.id)
        if not left and not moving:
            return Succeeded(UNCHANGED)
        if OVERDUE in job.progress:
            why = f"{why_overdue(job.progress)}; {len(left) + moving} VM(s) have not left the host"
            return self.failed(work, RESOURCE_UNAVAILABLE, why)
        vms = self._lock_some(connection, left, moving)
        made = _move(connection, work, vms)
        save_progress(connection, job, {**job.progress, VMS: sorted({*left} - {*vms})}, self.tools.lease_seconds)
        return Paused(LOOK_AGAIN_S, {}, made)

    def _lock_some(self, connection: Connection, left: list[int], moving: int) -> dict[int, Instance]:
        """Lock and return as many of the VMs ``left`` as the setting allows in addition to ``moving`` migrations.

        VMs that another transaction has locked are skipped, and moved by a later run.
        """
        places = read_configuration(connection).number("host.maintenance.migrations.max") - moving
        if places <= 0:
            return {}
        rows = lock_vms_to_move(connection, left, places)
        return {row.id: Instance(MIGRATE.instance_type, row.id, row.uuid) for row in rows}


def _move(connection: Connection, work: PlaceWork, vms: dict[int, Instance]) -> list[JobMessage]:
    """Create jobs that migrate these VMs off the host, and return their messages."""
    if not vms:
        return []
    account_id = submitter_of(connection, work.job.id)
    jobs = [
        MIGRATE.new_job(
            vm,
            f"moving a Vm off host {work.name}",
            account_id=account_id,
            user_id=work.job.user_id,
            params={FROM_HOST: work.job.instance_id, **planned_host(work.job.params, vm.id, HOST)},
            parent_id=work.job.id,
        )
        for vm in vms.values()
    ]
    return make_child_jobs(connection, jobs)


MIGRATE_HOST = JobKind(
    name="migrate_host",
    instance_type=InstanceType.HOST,
    command_class="org.apache.cloudstack.api.command.admin.host.MigrateHostCmd",
    event_type=EventType.HOST_MIGRATE,
    verb="migrate",
    action="moving all VMs off",
    not_done="was not emptied",
    states=frozenset(HostResourceState),
    move=None,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.HOST_MIGRATION,
    failpoints=frozenset({MIGRATE_HOST_COMMIT}),
    steps=MigrateHost,
)
