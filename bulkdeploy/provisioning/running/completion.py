"""The completion of many jobs at once: the states of their instances, their results and their events.

The order inside a transaction is: releases first (hosts, pools, ranges, counts), then VM and job rows. A VM whose
host was declared off does not stay Running, because its guest ended with the host. The job rows come last and prove
that the leases are valid: if one lease was lost, nothing of the batch is written.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection

from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.domain.jobs import InstanceType, JobStatus
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.outcome import (
    UNCHANGED,
    Failed,
    FinalState,
    Outcome,
    Paused,
    Requeued,
    Succeeded,
)
from bulkdeploy.provisioning.running.results import failure_result, success_results
from bulkdeploy.queue.job_queue import BULK, INTERACTIVE, PACED, QUEUE_SIZES, JobMessage
from bulkdeploy.store.infrastructure.host_maintenance import set_resource_state, wake_waiting
from bulkdeploy.store.infrastructure.host_migration import vms_on_off_hosts, vms_without_host
from bulkdeploy.store.jobs.action_events import COMPLETED, ERROR, INFO, ActionEvent, write_events
from bulkdeploy.store.jobs.job_leases import give_back_leases, wake_throttled
from bulkdeploy.store.jobs.job_results import object_result
from bulkdeploy.store.jobs.jobs import JobEnd, JobPause, LeasedJob, finish_jobs, pause_jobs, wake_blocked
from bulkdeploy.store.jobs.operation_pace import cancel_if_too_many_failed, release_next
from bulkdeploy.store.jobs.outbox import JobQueues, Unsent
from bulkdeploy.store.ledger.release import release_hosts
from bulkdeploy.store.ledger.volume_removal import destroy_volumes_with
from bulkdeploy.store.virtual_machines.guests import mark_removed, mark_volumes_ready, move_states

log = structlog.get_logger(__name__)

SOURCES: Mapping[VmState, frozenset[VmState]] = {
    VmState.RUNNING: frozenset({VmState.STARTING, VmState.STOPPING, VmState.MIGRATING}),
    VmState.STOPPED: frozenset({VmState.STARTING, VmState.STOPPING, VmState.MIGRATING}),
    VmState.UNKNOWN: frozenset({VmState.STARTING, VmState.STOPPING, VmState.MIGRATING}),
    VmState.ERROR: frozenset({VmState.STOPPED, VmState.STARTING}),
    VmState.DESTROYED: frozenset(set(VmState) - {VmState.EXPUNGING}),
    VmState.EXPUNGING: frozenset(VmState),
}
"""From which states a job's end may move its VM to the state it leaves; other moves are not made."""

JOB_QUEUES = JobQueues(INTERACTIVE, BULK, QUEUE_SIZES)


@dataclass(frozen=True, slots=True)
class Finished:
    """A job whose attempt has ended. ``name`` is the name of its instance, or empty if the instance was deleted."""

    job: LeasedJob
    name: str
    outcome: Outcome

    @property
    def final(self) -> FinalState:
        """The final state of the instance. A job that is paused or requeued changes nothing."""
        return UNCHANGED if isinstance(self.outcome, Paused | Requeued) else self.outcome.final

    @property
    def is_over(self) -> bool:
        """True if the job has succeeded or failed and therefore has a result."""
        return isinstance(self.outcome, Succeeded | Failed)


class StaleLeases(Exception):
    """Raised if some leases were lost. The transaction must be rolled back and repeated without their jobs.

    Args:
        leases: the lost leases (``LeasedJob.lease``). A worker may have lost a job and leased it again, so a job
            may occur with two leases.
    """

    def __init__(self, leases: Collection[tuple[int, int]]) -> None:
        self.leases = frozenset(leases)
        super().__init__(f"leases lost: {sorted(self.leases)}")

    def still_leased(self, finished: Sequence[Finished]) -> list[Finished]:
        """Return the entries whose leases are still valid.

        The result is always shorter than ``finished``, so that a loop over it ends.

        Raises:
            ValueError: no lease of ``finished`` is among the lost leases.
        """
        rest = [entry for entry in finished if entry.job.lease not in self.leases]
        if len(rest) == len(finished):
            raise ValueError(f"{self}: none of them was to be completed")
        return rest


def complete(connection: Connection, finished: Sequence[Finished]) -> list[JobMessage]:
    """Complete jobs in one transaction, and return the messages to send after the commit.

    All jobs must release the same kind of claims, so that the transaction takes its locks in order.

    Raises:
        StaleLeases: leases were lost, and the caller must roll back.
    """
    _refuse_earlier_tries(finished)
    releases = {entry.final.release for entry in finished}
    if len(releases) != 1:
        raise ValueError("jobs of one transaction must release the same")
    release = releases.pop()
    to_run = [entry.job.instance_id for entry in finished if entry.final.state is VmState.RUNNING]
    off = vms_on_off_hosts(connection, to_run) if to_run else []
    if off:
        release_hosts(connection, off)
    if release is not None:
        release(connection, sorted(entry.job.instance_id for entry in finished))
    ended = vms_without_host(connection, to_run) if to_run and (off or release is not None) else set()
    _delete_volumes(connection, finished)
    by_type = _by_instance_type(finished)
    _leave_hosts(connection, by_type.get(InstanceType.HOST, []))
    _leave_vms(connection, by_type.get(InstanceType.VIRTUAL_MACHINE, []), ended)
    unsent = _end_jobs(connection, finished)
    over = [entry for entry in finished if entry.is_over]
    if over:
        write_events(connection, [_event(entry) for entry in over])
        unsent += _wake(connection, over)
    made = [message for entry in finished if isinstance(entry.outcome, Paused) for message in entry.outcome.made]
    return made + [JobMessage(one.job_id, one.kind, one.queue) for one in unsent]


def _refuse_earlier_tries(finished: Sequence[Finished]) -> None:
    """Raise StaleLeases if ``finished`` contains several attempts of one job: only the newest lease can be valid.

    Raises:
        StaleLeases: names the leases of the earlier attempts.
    """
    newest: dict[int, int] = {}
    for entry in finished:
        newest[entry.job.id] = max(entry.job.fence, newest.get(entry.job.id, 0))
    earlier = [entry.job.lease for entry in finished if entry.job.fence < newest[entry.job.id]]
    if earlier:
        raise StaleLeases(earlier)


def _by_instance_type(finished: Sequence[Finished]) -> Mapping[str, list[Finished]]:
    by_type: dict[str, list[Finished]] = defaultdict(list)
    for entry in finished:
        by_type[entry.job.instance_type].append(entry)
    return by_type


def _wake(connection: Connection, ended_jobs: Sequence[Finished]) -> list[Unsent]:
    """Wake the jobs that waited for these jobs to end, and return their messages.

    Such jobs work on the same instances, created these jobs, belong to the same bulk operation, or wait for a free
    driver call on the same host.
    """
    woken = []
    for instance_type, entries in _by_instance_type(ended_jobs).items():
        woken += wake_blocked(connection, instance_type, [entry.job.instance_id for entry in entries], INTERACTIVE)
    parents = {entry.job.parent_id for entry in ended_jobs if entry.job.parent_id is not None}
    if parents:
        woken += wake_waiting(connection, parents, INTERACTIVE)
    unsent = [Unsent(job_id, kind, INTERACTIVE) for job_id, kind in woken]
    operations = Counter(entry.job.operation_id for entry in ended_jobs if entry.job.operation_id is not None)
    if operations:
        failed = {entry.job.operation_id for entry in ended_jobs if isinstance(entry.outcome, Failed)}
        unsent += cancel_if_too_many_failed(connection, operations.keys() & failed, PACED)
        unsent += release_next(connection, operations, PACED)
    return unsent + wake_throttled(connection, [entry.job.id for entry in ended_jobs], JOB_QUEUES)


def _leave_hosts(connection: Connection, finished: Sequence[Finished]) -> None:
    for state in {entry.final.host_state for entry in finished}:
        if state is not None:
            ids = [entry.job.instance_id for entry in finished if entry.final.host_state is state]
            set_resource_state(connection, ids, state, sources=(HostResourceState.PREPARE_FOR_MAINTENANCE,))


def _leave_vms(connection: Connection, finished: Sequence[Finished], ended: Collection[int]) -> None:
    """Write the final states of the jobs' VMs.

    VMs in ``ended`` become Stopped even if their jobs would make them Running, because their hosts were declared
    off and their guests do not run any more.
    """
    by_final: dict[FinalState, list[int]] = defaultdict(list)
    for entry in finished:
        final = replace(entry.final, deleted_volumes=())
        if entry.job.instance_id in ended and final.state is VmState.RUNNING:
            final = replace(final, state=VmState.STOPPED)
        by_final[final].append(entry.job.instance_id)
    for final, vm_ids in by_final.items():
        if final.state is not None:
            moved = move_states(connection, vm_ids, SOURCES[final.state], final.state)
            if len(moved) < len(vm_ids):
                log.warning("vm_not_moved", state=final.state.value, vms=sorted(set(vm_ids) - moved))
        if final.volumes_ready:
            mark_volumes_ready(connection, vm_ids)
        if final.removed:
            mark_removed(connection, vm_ids)


def _end_jobs(connection: Connection, finished: Sequence[Finished]) -> list[Unsent]:
    """Write the outcomes of the jobs, and return the messages of the requeued jobs."""
    results = success_results(connection, [entry.job for entry in finished if isinstance(entry.outcome, Succeeded)])
    ends: list[JobEnd] = []
    pauses: list[JobPause] = []
    requeued: dict[int, int] = {}
    for entry in finished:
        job, outcome = entry.job, entry.outcome
        if isinstance(outcome, Requeued):
            requeued[job.id] = job.fence
        elif isinstance(outcome, Paused):
            pauses.append(JobPause(job.id, job.fence, outcome.after_s, outcome.progress))
        elif isinstance(outcome, Failed):
            ends.append(JobEnd(job.id, job.fence, JobStatus.FAILED, failure_result(outcome)))
        else:
            kind = job_kinds()[job.kind]
            shown = None if outcome.shown is None else object_result(kind.result.value, outcome.shown)
            ends.append(JobEnd(job.id, job.fence, JobStatus.SUCCEEDED, shown or results[job.id]))
    done = (finish_jobs(connection, ends) if ends else set()) | (
        pause_jobs(connection, pauses) if pauses else set()
    )
    unsent = give_back_leases(connection, requeued, JOB_QUEUES) if requeued else []
    done |= {one.job_id for one in unsent}
    if len(done) < len(finished):
        raise StaleLeases([entry.job.lease for entry in finished if entry.job.id not in done])
    return unsent


def _event(entry: Finished) -> ActionEvent:
    kind = job_kinds()[entry.job.kind]
    did, level = kind.describe(entry.name), INFO
    text = f"completed: {did}"
    if isinstance(entry.outcome, Failed):
        text, level = f"failed: {did}. {entry.outcome.text}", ERROR
    return ActionEvent(entry.job.id, kind.event_type, COMPLETED, text, level)


def _delete_volumes(connection: Connection, finished: Sequence[Finished]) -> None:
    """Delete the volumes that must be deleted together with VMs that these jobs destroyed.

    The transaction has locked the resource counts of their owners before.
    """
    going = [entry for entry in finished if entry.final.deleted_volumes]
    if going:
        volume_ids = {volume_id for entry in going for volume_id in entry.final.deleted_volumes}
        destroy_volumes_with(connection, sorted(entry.job.instance_id for entry in going), sorted(volume_ids))
