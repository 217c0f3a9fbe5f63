"""The sweeper's passes over jobs: lost and late jobs are requeued or ended, and old rows are deleted.

Several processes may run each pass at the same time, and may die at any line.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row

from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import expunge_in_any_state
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, Failed, Release
from bulkdeploy.provisioning.progress import TOO_LATE
from bulkdeploy.provisioning.running.completion import JOB_QUEUES, Finished, StaleLeases, complete
from bulkdeploy.provisioning.running.relay import Relay
from bulkdeploy.queue.job_queue import INTERACTIVE, PACED, JobQueue
from bulkdeploy.store.accounts.account_removal import end_removal_jobs
from bulkdeploy.store.accounts.sessions import delete_expired_sessions
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.jobs import job_sweeping as store
from bulkdeploy.store.jobs.job_leases import DriverLimits
from bulkdeploy.store.jobs.jobs import LeasedJob, insert_jobs
from bulkdeploy.store.jobs.operation_pace import release_what_is_due
from bulkdeploy.telemetry import metrics

log = structlog.get_logger(__name__)

ROWS_AT_ONCE = 1000
MOST_TURNS = 100
"""A pass that is not through after so many transactions goes on in the next round: others wait for it."""

CLOCK_STEP_S = 60.0
"""Clocks that drift apart by more between two looks were set."""

EXPUNGE_AGAIN_S = 600
"""A VM whose removal failed is tried again after this."""

NEVER_BEGUN = "the job never began: no worker ran for longer than job.cancel.threshold.minutes"


class Sweeper:
    """The sweeper's passes over jobs.

    Args:
        engine: the database.
        job_queue: the message broker. If it does not answer, ``QueueUnavailable`` ends the pass.
        clock: returns seconds that never decrease.
    """

    def __init__(self, engine: Engine, job_queue: JobQueue, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._job_queue, self._clock = engine, job_queue, clock
        self._relay = Relay(engine, job_queue)
        self._clock_offset: float | None = None
        self._clock_set_at: float | None = None

    def send_unsent(self) -> None:
        """Send the messages that API processes and earlier passes left in the outbox."""
        self._report("sent", self._relay.send_unsent())

    def requeue_dropped(self) -> None:
        """Queue jobs whose leases expired, and jobs whose waiting time has passed."""
        again = self._in_turns(
            lambda connection: store.requeue_dropped(connection, JOB_QUEUES, ROWS_AT_ONCE), Failpoint.SWEEP_DROPPED
        )
        self._report("requeued", again)

    def requeue_throttled(self) -> None:
        """Wake jobs that wait for a free driver call on a host, and release jobs that a bulk operation may run now.

        This repairs the cases in which no other job woke them: a worker died, a limit was raised, or a job of the
        operation ended without a worker.
        """
        with self._engine.connect() as connection:
            limits = DriverLimits.of(read_configuration(connection))

        def wake(connection: Connection) -> int:
            woken = store.requeue_throttled(connection, JOB_QUEUES, limits, ROWS_AT_ONCE)
            return woken + release_what_is_due(connection, PACED, ROWS_AT_ONCE)

        self._report("throttled_woken", run_transaction(self._engine, wake, Failpoint.SWEEP_THROTTLED))

    def requeue_lost(self) -> None:
        """Send the messages of queued jobs again if their Redis queue is empty, because Redis has lost them."""
        empty = [queue for queue, waiting in self._job_queue.waiting().items() if waiting == 0]
        lost = self._in_turns(
            lambda connection: store.requeue_lost(connection, JOB_QUEUES, empty, ROWS_AT_ONCE), Failpoint.SWEEP_LOST
        )
        self._report("lost_messages", lost)

    def end_late(self) -> None:
        """Requeue jobs that exceed ``job.cancel.threshold.minutes``, so that workers clean up and fail them.

        For the same time after a change of the database's clock, no job is treated as late, because its age is
        unknown.
        """
        minutes = self._setting("job.cancel.threshold.minutes")
        if self._clock_was_set(60.0 * minutes):
            return
        late = self._in_turns(
            lambda connection: store.requeue_overdue(
                connection, JOB_QUEUES, why=TOO_LATE, minutes=minutes, most=ROWS_AT_ONCE
            ),
            Failpoint.SWEEP_OVERDUE,
        )
        self._report("overdue", late)
        self._report("never_begun", self._fail_stuck(minutes))

    def expunge_destroyed(self) -> None:
        """Create jobs that expunge VMs destroyed ``expunge.delay`` seconds ago, or not removed at the first try."""
        delay_s = self._setting("expunge.delay")
        expunge = partial(_insert_expunge_jobs, delay_s=delay_s)
        self._report("to_expunge", self._in_turns(expunge, Failpoint.SWEEP_EXPUNGE))

    def end_removals(self) -> None:
        """Complete the jobs of calls that removed accounts, once the VMs of these accounts are deleted."""
        minutes = self._setting("job.cancel.threshold.minutes")
        ended = run_transaction(self._engine, partial(end_removal_jobs, minutes=minutes), Failpoint.SWEEP_REMOVALS)
        self._report("removals_ended", ended)

    def expire(self) -> None:
        """Delete jobs that finished ``job.expire.minutes`` ago, and expired sessions."""
        minutes = self._setting("job.expire.minutes")
        expired = self._in_turns(
            lambda connection: store.delete_expired(connection, minutes=minutes, most=ROWS_AT_ONCE),
            Failpoint.SWEEP_EXPIRED,
        )
        self._report("expired", expired)
        run_transaction(self._engine, delete_expired_sessions, Failpoint.SWEEP_SESSIONS)

    def _clock_was_set(self, trusted_after_s: float) -> bool:
        """Return whether the database's clock was changed less than ``trusted_after_s`` seconds ago.

        A change is noticed by comparing the database's clock with this process's clock.
        """
        with self._engine.connect() as connection:
            database_s = store.read_clock(connection)
        now = self._clock()
        offset = database_s - now
        if self._clock_offset is not None and abs(offset - self._clock_offset) > CLOCK_STEP_S:
            log.warning("clock_was_set", by_s=round(offset - self._clock_offset), ages_trusted_in_s=trusted_after_s)
            self._clock_set_at = now
        self._clock_offset = offset
        return self._clock_set_at is not None and now - self._clock_set_at < trusted_after_s

    def _fail_stuck(self, minutes: int) -> int:
        with self._engine.connect() as connection:
            rows = store.read_stuck(connection, list(job_kinds()), minutes=minutes, most=ROWS_AT_ONCE)
        by_release: dict[Release | None, list[Finished]] = defaultdict(list)
        for row in rows:
            finished = _never_begun(row)
            by_release[finished.final.release].append(finished)
        return sum(self._complete(alike) for alike in by_release.values())

    def _complete(self, finished: Sequence[Finished]) -> int:
        """Complete jobs that never began with failures, and return their number.

        Jobs that began meanwhile are skipped.
        """
        while finished:
            try:
                run_transaction(self._engine, partial(complete, finished=finished), Failpoint.SWEEP_NEVER_BEGUN)
                break
            except StaleLeases as stale:
                finished = stale.still_leased(finished)
        return len(finished)

    def _in_turns(self, work: Callable[[Connection], int], at: Failpoint) -> int:
        """Run ``work`` in several transactions until one processes less than ROWS_AT_ONCE rows.

        Return the sum of the rows.
        """
        total = 0
        for _ in range(MOST_TURNS):
            done = run_transaction(self._engine, work, at)
            total += done
            if done < ROWS_AT_ONCE:
                break
        return total

    def _setting(self, name: str) -> int:
        with self._engine.connect() as connection:
            return read_configuration(connection).number(name)

    def _report(self, what: str, jobs: int) -> None:
        if jobs:
            metrics.SWEPT.labels(what).inc(jobs)
            log.info(what, jobs=jobs)


def _insert_expunge_jobs(connection: Connection, *, delay_s: int) -> int:
    """Create expunge jobs for the VMs that are due, in the name of each VM's owner, and return their number."""
    vms = store.lock_vms_to_expunge(connection, delay_s=delay_s, again_s=EXPUNGE_AGAIN_S, most=ROWS_AT_ONCE)
    if vms:
        text = "expunging a destroyed Vm"
        insert_jobs(
            connection,
            [expunge_in_any_state(vm, text, account_id=vm.account_id, user_id=vm.user_id) for vm in vms],
            INTERACTIVE,
        )
    return len(vms)


def _never_begun(row: Row[Any]) -> Finished:
    """Convert the row of a job that never got a lease to a finished job with a failure. Its fence is zero."""
    job = LeasedJob(
        id=row.id,
        uuid=row.uuid,
        kind=row.kind,
        fence=row.lease_fence,
        attempts=0,
        user_id=row.user_id,
        instance_type=row.instance_type,
        instance_id=row.instance_id,
        deployment_id=row.deployment_id,
        params={},
        progress={},
        cancelled=False,
    )
    final = job_kinds()[job.kind].if_never_begun
    return Finished(job, "", Failed(INTERNAL_ERROR, f"Nothing was done: {NEVER_BEGUN}", final))
