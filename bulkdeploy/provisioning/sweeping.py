"""The sweeper's work: nothing that was asked for stays undone, and nothing that is over stays behind.

Every pass may be run by several processes at once and may die at any line.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row

from bulkdeploy import meters
from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.domain.jobs import EXPUNGE_COMMAND_CLASS, JobKind
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.provisioning.destroy_virtual_machine import EXPUNGE, DestroyVirtualMachine
from bulkdeploy.provisioning.host_maintenance import NOT_EMPTIED
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, Failed, GiveBack, Settlement
from bulkdeploy.provisioning.relay import Relay
from bulkdeploy.provisioning.settling import LANES, Finished, Settler, StaleLeases
from bulkdeploy.provisioning.steps import TOO_LATE
from bulkdeploy.queue.job_queue import INTERACTIVE, JobQueue
from bulkdeploy.store import job_sweeping as store
from bulkdeploy.store.account_removal import end_removal_jobs
from bulkdeploy.store.action_events import SCHEDULED, ActionEvent, write_events
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.job_leases import DriverLimits
from bulkdeploy.store.jobs import LeasedJob, NewJob, insert_jobs
from bulkdeploy.store.sessions import delete_expired_sessions

log = structlog.get_logger(__name__)

ROWS_AT_ONCE = 1000
CLOCK_STEP_S = 60.0
"""Clocks that drift apart by more between two looks were set."""

EXPUNGE_AGAIN_S = 600
"""A VM whose removal failed is tried again after this."""

DESTROY_EVENT = DestroyVirtualMachine.begin.event_type

NEVER_BEGUN = "the job never began: no worker ran for longer than job.cancel.threshold.minutes"


class Sweeper:
    """All passes.

    Args:
        engine: the database.
        job_queue: the courier; where it does not answer, ``QueueUnavailable`` ends the pass.
        settler: ends jobs that nobody else will end.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        engine: Engine,
        job_queue: JobQueue,
        settler: Settler,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._job_queue, self._settler, self._clock = engine, job_queue, settler, clock
        self._relay = Relay(engine, job_queue)
        self._clock_offset: float | None = None
        self._clock_set_at: float | None = None

    def send_unsent(self) -> None:
        """Send what API processes and earlier passes left in the outbox."""
        self._tell("sent", self._relay.send_unsent())

    def requeue_dropped(self) -> None:
        """Take over expired leases, and wake jobs that waited long enough."""
        again = self._in_turns(
            lambda connection: store.requeue_dropped(connection, LANES, ROWS_AT_ONCE), CrashPoint.SWEEP_DROPPED
        )
        self._tell("requeued", again)

    def requeue_held_back(self) -> None:
        """Wake jobs that wait for a host which has places: nobody gave those back, or the limit was raised."""
        with self._engine.connect() as connection:
            limits = DriverLimits.of(read_configuration(connection))
        woken = run_transaction(
            self._engine,
            lambda connection: store.requeue_held_back(connection, LANES, limits, ROWS_AT_ONCE),
            CrashPoint.SWEEP_HELD_BACK,
        )
        self._tell("held_back_woken", woken)

    def requeue_lost(self) -> None:
        """Send again what Redis lost: jobs are queued here, and nothing waits there."""
        empty = [queue for queue, waiting in self._job_queue.waiting().items() if waiting == 0]
        lost = self._in_turns(
            lambda connection: store.requeue_lost(connection, LANES, empty, ROWS_AT_ONCE), CrashPoint.SWEEP_LOST
        )
        self._tell("lost_messages", lost)

    def end_late(self) -> None:
        """Have jobs ended that take longer than ``job.cancel.threshold.minutes``.

        For as long after the database's clock was set no job is old: its age is not known.
        """
        minutes = self._setting("job.cancel.threshold.minutes")
        if self._clock_was_set(60.0 * minutes):
            return
        late = self._in_turns(
            lambda connection: store.requeue_overdue(
                connection, LANES, why=TOO_LATE, minutes=minutes, most=ROWS_AT_ONCE
            ),
            CrashPoint.SWEEP_OVERDUE,
        )
        self._tell("overdue", late)
        self._tell("never_begun", self._fail_stuck(minutes))

    def expunge_destroyed(self) -> None:
        """Make jobs that expunge VMs destroyed ``expunge.delay`` seconds ago, or not removed at the first try."""
        delay_s = self._setting("expunge.delay")
        expunge = partial(_insert_expunge_jobs, delay_s=delay_s)
        self._tell("to_expunge", self._in_turns(expunge, CrashPoint.SWEEP_EXPUNGE))

    def end_removals(self) -> None:
        """End the jobs of calls that removed accounts, once their VMs are gone."""
        minutes = self._setting("job.cancel.threshold.minutes")
        ended = run_transaction(self._engine, partial(end_removal_jobs, minutes=minutes), CrashPoint.SWEEP_REMOVALS)
        self._tell("removals_ended", ended)

    def expire(self) -> None:
        """Delete jobs finished ``job.expire.minutes`` ago, and sessions that are over."""
        minutes = self._setting("job.expire.minutes")
        expired = self._in_turns(
            lambda connection: store.delete_expired(connection, minutes=minutes, most=ROWS_AT_ONCE),
            CrashPoint.SWEEP_EXPIRED,
        )
        self._tell("expired", expired)
        run_transaction(self._engine, delete_expired_sessions, CrashPoint.SWEEP_SESSIONS)

    def _clock_was_set(self, trusted_after_s: float) -> bool:
        """Whether the database's clock, compared with this process's, was set less than this ago."""
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
            rows = store.read_stuck(connection, list(JobKind), minutes=minutes, most=ROWS_AT_ONCE)
        jobs = [_never_begun(row) for row in rows]
        deploys = [_given_up(job) for job in jobs if job.kind is JobKind.DEPLOY]
        others = [_given_up(job) for job in jobs if job.kind is not JobKind.DEPLOY]
        return self._settle(deploys) + self._settle(others)

    def _settle(self, finished: Sequence[Finished]) -> int:
        """Fail these; a job that somebody has begun meanwhile is left alone."""
        while finished:
            try:
                settle = partial(self._settler.settle, finished=finished)
                run_transaction(self._engine, settle, CrashPoint.SWEEP_NEVER_BEGUN)
                break
            except StaleLeases as stale:
                finished = [entry for entry in finished if entry.job.id not in stale.job_ids]
        return len(finished)

    def _in_turns(self, work: Callable[[Connection], int], at: CrashPoint) -> int:
        """Run ``work`` in transactions of ROWS_AT_ONCE rows until one is not full; the sum."""
        total = 0
        while True:
            done = run_transaction(self._engine, work, at)
            total += done
            if done < ROWS_AT_ONCE:
                return total

    def _setting(self, name: str) -> int:
        with self._engine.connect() as connection:
            return read_configuration(connection).number(name)

    def _tell(self, what: str, jobs: int) -> None:
        if jobs:
            meters.SWEPT.labels(what).inc(jobs)
            log.info(what, jobs=jobs)


def _insert_expunge_jobs(connection: Connection, *, delay_s: int) -> int:
    """Jobs in the name of each VM's owner."""
    vms = store.lock_vms_to_expunge(connection, delay_s=delay_s, again_s=EXPUNGE_AGAIN_S, most=ROWS_AT_ONCE)
    if vms:
        jobs = [
            NewJob(JobKind.DESTROY, EXPUNGE_COMMAND_CLASS, vm.account_id, vm.user_id, vm.id, {EXPUNGE: True})
            for vm in vms
        ]
        made = insert_jobs(connection, jobs, INTERACTIVE)
        write_events(
            connection,
            [ActionEvent(job_id, DESTROY_EVENT, SCHEDULED, "expunging a destroyed Vm") for job_id, _ in made],
        )
    return len(vms)


def _never_begun(row: Row[Any]) -> LeasedJob:
    """The job as its first lease would find it: its fence is still that of nobody."""
    return LeasedJob(
        id=row.id,
        uuid=row.uuid,
        kind=JobKind(row.kind),
        fence=row.lease_fence,
        attempts=0,
        user_id=row.user_id,
        vm_id=row.instance_id,
        deployment_id=row.deployment_id,
        params={},
        progress={},
        cancelled=False,
    )


def _given_up(job: LeasedJob) -> Finished:
    settlement = Settlement()
    if job.kind is JobKind.DEPLOY:
        settlement = Settlement(VmState.ERROR, GiveBack.EVERYTHING)
    elif job.kind is JobKind.PREPARE_HOST:
        settlement = NOT_EMPTIED
    return Finished(job, "", Failed(INTERNAL_ERROR, f"Nothing was done: {NEVER_BEGUN}", settlement))
