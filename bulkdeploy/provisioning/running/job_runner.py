"""The execution of jobs from message to result (one file: everything that one process does with a job).

accept -> [lease requests] -> one thread commits -> driver threads -> [finished jobs] -> one thread commits

Threads wait only for drivers. Leases and results are written by group commit, so that all jobs at the same point
share the cost of a transaction. A message is only a hint: the job's row determines whether the job runs.
"""

import os
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Condition, Event, Thread
from typing import Any
from uuid import uuid4

import structlog
from sqlalchemy import Engine

from bulkdeploy.drivers.registry import FindsDrivers
from bulkdeploy.power.registry import PowerDrivers
from bulkdeploy.provisioning.assignment import Work
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.held_leases import HeldLeases
from bulkdeploy.provisioning.job_kind import JobSteps, StepTools
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.outcome import Failed, LeaseLost, Outcome, Paused, Requeued
from bulkdeploy.provisioning.power_calls import PowerCalls
from bulkdeploy.provisioning.progress import LAST_TRIES, OVERDUE, pause
from bulkdeploy.provisioning.running.completion import Finished
from bulkdeploy.provisioning.running.group_commit import GroupCommit
from bulkdeploy.provisioning.running.job_writer import Entry, JobWriter
from bulkdeploy.provisioning.running.last_look import with_seen_state
from bulkdeploy.provisioning.running.lease_acquisition import Acquired, LeaseAcquisition, given_up_on
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.jobs.driver_errors import DriverErrorKind, add_driver_errors
from bulkdeploy.store.virtual_machines.virtual_machine_migration import SourceReleasedError
from bulkdeploy.telemetry.request_id import working_for
from bulkdeploy.telemetry.tracing import Span, SpanKind, Value, continued, span

log = structlog.get_logger(__name__)


STUCK_LEASES = 3
"""Nothing was written for so many lease times although the database is there: no more will be."""

SLOTS_PER_THREAD, SLOTS_BESIDES = 2, 4
"""Jobs accepted and not yet through with their driver: half of them wait leased, so that no thread does."""

PACE_S = 0.05
"""Under light load batches are begun no faster: at 350 VMs a second over two processes that saves a fifth of the
CPU per VM. Leases are taken ahead of free threads, so drivers do not wait for it."""

ERRORS_PACE_S = 2.0
"""Failed driver calls are counted together for so long, however many they are."""


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """The options of a process that runs jobs.

    Attributes:
        threads: the number of driver calls that run at the same time for jobs of ``accept``.
        lease_seconds: the duration of a lease without renewal, in seconds.
        driver_timeout_s: the timeout of one driver call in seconds.
        commit_pace_s: the minimum time in seconds between two batches of leases or results under light load.
    """

    threads: int
    lease_seconds: float
    driver_timeout_s: float
    commit_pace_s: float = PACE_S


class JobRunner:
    """The runner of the jobs that are passed to ``accept`` or ``run``. There is one per process.

    Args:
        engine: the database.
        job_queue: the queue to which jobs that waited for another job are sent.
        drivers: the hypervisors' drivers.
        options: the options of this process.
        decrypt: decrypts passwords of guests and of management controllers.
        power: the power drivers.
    """

    def __init__(
        self,
        engine: Engine,
        job_queue: JobQueue,
        drivers: FindsDrivers,
        options: RunnerOptions,
        decrypt: Callable[[bytes], str],
        power: PowerDrivers,
    ) -> None:
        self._engine = engine
        self._errors: GroupCommit[DriverErrorKind] = GroupCommit(
            self._write_errors, pace_s=ERRORS_PACE_S, enough=sys.maxsize, name="driver-errors"
        )
        calls = DriverCalls(drivers, options.driver_timeout_s, decrypt, self._errors.put)
        self._calls = calls
        tools = StepTools(engine, calls, PowerCalls(power, decrypt), options.lease_seconds)
        self._steps: Mapping[str, JobSteps[Any]] = {
            name: kind.steps(kind, tools) for name, kind in job_kinds().items()
        }
        # Queues in C cost two thirds of semaphores and executors in Python when a job is passed on.
        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(SLOTS_BESIDES):
            self._slots.put(None)
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._draining = False
        self._accepted = self._ended = 0
        self._counting = Condition()
        self._callers: dict[int, list[Event]] = defaultdict(list)
        self._lease_seconds = options.lease_seconds
        self._held = HeldLeases(engine, options.lease_seconds)
        leases = LeaseAcquisition(self._steps, worker_name(), options.lease_seconds, self._held.quarantined)
        self._writer = JobWriter(engine, job_queue, leases, self)
        pace_s = options.commit_pace_s
        self._commits: GroupCommit[Entry] = GroupCommit(self._writer.write, pace_s=pace_s, name="commit")
        self._threads: list[Thread] = []
        for _ in range(options.threads):
            self._start_thread()

    def accept(self, job_id: int) -> None:
        """Run a job in the background if it can get a lease.

        Returns immediately, but blocks while too many jobs are open. Must be called from one thread only.
        """
        self._slots.get()
        self._accepted += 1
        self._commits.put(job_id)

    def run(self, job_id: int) -> None:
        """Run a job if it can get a lease, and return when this process has nothing more to do for it.

        May be called from any number of threads, but not from the thread that calls ``accept``. Each waiting thread
        allows one more driver call at the same time.
        """
        ended = Event()
        with self._counting:
            self._callers[job_id].append(ended)
            if sum(map(len, self._callers.values())) > len(self._threads):
                self._start_thread()
            self.accept(job_id)
        ended.wait()

    def drain(self) -> None:
        """Start no more jobs: requeue all waiting and all later jobs, so that other workers run them.

        Returns immediately; may be called from a signal handler.
        """
        self._draining = True
        while True:
            try:
                work = self._work.get_nowait()
            except Empty:
                return
            if work is not None:
                self._end(Finished(work.job, work.name, Requeued()))

    def close(self) -> None:
        """Finish the running jobs, or all accepted jobs if ``drain`` was not called, and end all threads.

        No job may be accepted afterwards.
        """
        with self._counting:
            self._counting.wait_for(lambda: self._ended >= self._accepted)
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        self._commits.close()
        self._errors.close()
        self._held.close()

    def trouble(self) -> str | None:
        """Return the reason why this process must be restarted, or None if it works."""
        if not self._commits.is_alive():
            return "the thread that commits is gone"
        if not all(thread.is_alive() for thread in self._threads):
            return "a thread that calls drivers is gone"
        stuck_s = self._writer.stuck_s()
        if stuck_s > STUCK_LEASES * self._lease_seconds:
            return f"leases and results were not written for {stuck_s:.0f} s"
        idle_s = self._held.idle_s()
        if idle_s > self._lease_seconds:
            return f"leases were not renewed for {idle_s:.0f} s"
        return None

    def on_acquired(self, acquired: Acquired) -> None:
        """Pass leased jobs to the threads, complete decided jobs, and free the slots of refused jobs."""
        for _ in acquired.refused:
            self._slots.put(None)
        self._count_ended(acquired.refused)
        for finished in acquired.decided:
            self._held.add(finished.job)
            self._end(finished)
        for work in acquired.works:
            self._held.add(work.job)
            self._work.put(work)
        if self._draining:
            self.drain()

    def on_completed(self, finished: Sequence[Finished]) -> None:
        """Remove the leases of completed jobs, and wake the threads that wait for these jobs."""
        for entry in finished:
            self._held.discard(entry.job)
        self._count_ended([entry.job.id for entry in finished])

    def _write_errors(self, errors: Sequence[DriverErrorKind]) -> None:
        """Write driver errors to the statistics in the database. No job depends on them.

        Errors that cannot be written are in the log and the metrics.
        """
        try:
            with self._engine.begin() as connection:
                add_driver_errors(connection, errors)
        except Exception as error:
            if not is_unreachable(error):
                log.exception("driver_errors_not_written", errors=len(errors))

    def _call_drivers(self) -> None:
        while (work := self._work.get()) is not None:
            with (
                working_for(work.job.request_id, work.job.user_id),
                continued(work.job.traceparent),
                span(f"job {work.job.kind}", SpanKind.CONSUMER, partial(_facts, work)) as running,
            ):
                self._run(work, running)

    def _run(self, work: Work, running: Span) -> None:
        outcome = self._outcome(work)
        if isinstance(outcome, Failed):
            running.fail(outcome.text)
            log.warning("job_failed", why=outcome.text, **work.names)
        if outcome is not None:
            self._end(Finished(work.job, work.name, outcome))
            return
        self._slots.put(None)
        self._held.discard(work.job)
        self._count_ended([work.job.id])

    def _outcome(self, work: Work) -> Outcome | None:
        """Run the driver's part of a job and return its outcome, or None if another worker has the job now."""
        if self._draining:
            return Requeued()
        steps = self._steps[work.job.kind]
        try:
            outcome = self._bounded(steps, work, steps.run(work))
            return with_seen_state(self._engine, self._calls, work, outcome)
        except LeaseLost as lost:
            log.warning("lease_lost", why=str(lost), **work.names)
            return None
        except SourceReleasedError:  # the VM has changed since the job was read; the next try reads it again
            return self._bounded(steps, work, pause(work, None))
        except Exception as error:  # noqa: BLE001 - whatever it is, the job is tried again, until its time is up
            if self._held.is_lost(work.job):
                log.warning("lease_lost", why=f"{type(error).__name__}: {error}".splitlines()[0], **work.names)
                return None
            _report_interrupted(work, error)
            is_over = OVERDUE in work.job.progress and not is_unreachable(error)
            return given_up_on(steps.kind, work) if is_over else pause(work, None)

    def _bounded(self, steps: JobSteps[Any], work: Work, outcome: Outcome) -> Outcome:
        """Return the outcome, or the final failure of an overdue job that has used up its clean-up attempts.

        This limits all attempts of a job together, regardless of its errors. A job whose hypervisor answers ends
        earlier, in the state that the hypervisor reports. For other jobs, the job's kind declares the state that is
        certain.
        """
        if not isinstance(outcome, Paused) or OVERDUE not in work.job.progress:
            return outcome
        tries = int(work.job.progress.get(LAST_TRIES, 0)) + 1
        with read_only(self._engine) as connection:
            most = read_configuration(connection).number("job.cleanup.tries.max")
        if tries < most:
            return replace(outcome, progress={**outcome.progress, LAST_TRIES: tries})
        return given_up_on(steps.kind, work)

    def _end(self, finished: Finished) -> None:
        self._slots.put(None)
        self._commits.put(finished)

    def _count_ended(self, job_ids: Sequence[int]) -> None:
        with self._counting:
            self._ended += len(job_ids)
            self._counting.notify_all()
            for job_id in job_ids if self._callers else ():
                callers = self._callers.get(job_id, [])
                if callers:
                    callers.pop().set()
                if not callers:
                    self._callers.pop(job_id, None)

    def _start_thread(self) -> None:
        thread = Thread(target=self._call_drivers, name=f"driver-{len(self._threads)}", daemon=True)
        for _ in range(SLOTS_PER_THREAD):
            self._slots.put(None)
        self._threads.append(thread)
        thread.start()


def worker_name() -> str:
    """Return this process's name in leases, which is unique over machines and restarts."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"


def _facts(work: Work) -> dict[str, Value]:
    """Return the attributes of a job's trace span, which are the same as those of its log lines."""
    facts: dict[str, Value] = {f"bulkdeploy.{name}": value for name, value in work.names.items()}
    return {**facts, "bulkdeploy.attempt": work.job.attempts, "bulkdeploy.request": work.job.request_id or ""}


def _report_interrupted(work: Work, error: Exception) -> None:
    if is_unreachable(error):
        log.warning("database_away", why=str(error).splitlines()[0], **work.names)
    else:
        log.error("job_interrupted", exc_info=error, **work.names)
