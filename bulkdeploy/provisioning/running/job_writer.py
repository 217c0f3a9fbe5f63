"""The writer of batches of lease requests and finished jobs, in as few transactions as possible.

A batch is one transaction for all entries that release nothing, and one for each kind of release. The process may
die at any line: the sweeper sends the message of an unwritten request again, and an unwritten result means that the
lease expires and another worker takes over the job.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy.domain.errors import ConflictRetriesExhausted
from bulkdeploy.processes.failpoints import Failpoint, after, before
from bulkdeploy.provisioning.outcome import Paused, Release, Requeued
from bulkdeploy.provisioning.running.completion import Finished, StaleLeases, complete
from bulkdeploy.provisioning.running.lease_acquisition import Acquired, LeaseAcquisition
from bulkdeploy.queue.job_queue import JobMessage, JobQueue, QueueUnavailable
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.jobs.jobs import held_leases
from bulkdeploy.store.jobs.outbox import forget_sent
from bulkdeploy.telemetry import metrics

T = TypeVar("T")

log = structlog.get_logger(__name__)

LONGEST_WAIT_S = 5.0

MOST_CONFLICTS = 10
"""A transaction that lost so many rows of races is no longer waited for: its entries are written one by one."""

Entry = int | Finished
"""A job id to lease, or a finished job."""


class Listener(Protocol):
    """The recipient of the results of batches, after the commit."""

    def on_acquired(self, acquired: Acquired) -> None:
        """Handle the result of a batch of lease requests: acquired leases and refused requests."""

    def on_completed(self, finished: Sequence[Finished]) -> None:
        """Handle jobs that were completed or that lost their leases.

        This process has nothing more to do for them.
        """


class JobWriter:
    """The writer of batches of lease requests and finished jobs. Only one thread uses it.

    Args:
        engine: the database; while it cannot be reached, the writer waits and repeats.
        job_queue: the queue to which woken jobs are sent.
        leases: acquires the leases.
        listener: gets the results of each batch.
    """

    def __init__(self, engine: Engine, job_queue: JobQueue, leases: LeaseAcquisition, listener: Listener) -> None:
        self._engine, self._job_queue, self._leases, self._listener = engine, job_queue, leases, listener
        self._moved_on: float | None = None

    def stuck_s(self) -> float:
        """Return for how many seconds the batch that is being written has made no progress.

        Time spent waiting for an unreachable database is not counted.
        """
        moved_on = self._moved_on
        return 0.0 if moved_on is None else time.monotonic() - moved_on

    def write(self, entries: Sequence[Entry]) -> None:
        """Write a batch of entries. Never raises an exception."""
        self._moved_on = time.monotonic()
        try:
            self._write(entries)
        finally:
            self._moved_on = None

    def _write(self, entries: Sequence[Entry]) -> None:
        requests: list[int] = []
        ends: dict[Release | None, list[Finished]] = defaultdict(list)
        for entry in entries:
            if isinstance(entry, Finished):
                ends[entry.final.release].append(entry)
            else:
                requests.append(entry)
        self._write_batch(requests, ends.pop(None, []))
        for finished in ends.values():
            self._write_batch([], finished)

    def _write_batch(self, requests: list[int], finished: list[Finished]) -> None:
        """Write a batch in one transaction.

        If that fails because of a defect, each entry is written in its own transaction, so that one bad row stops
        only itself.
        """
        if not requests and not finished:
            return
        try:
            self._commit(requests, finished)
        except Exception as error:
            if len(rest := self._held(finished, error)) < len(finished):
                self._write_batch(requests, rest)
                return
            log.exception("batch_not_written", requests=len(requests), finished=len(finished))
            if len(requests) + len(finished) == 1:
                self._listener.on_acquired(Acquired(refused=requests))
                self._listener.on_completed(finished)
                return
            for job_id in requests:
                self._write_batch([job_id], [])
            for entry in finished:
                self._write_batch([], [entry])
        self._moved_on = time.monotonic()

    def _held(self, finished: list[Finished], error: Exception) -> list[Finished]:
        """Return the jobs whose leases are still valid, and report the others as completed by other workers."""
        leases = [entry.job.lease for entry in finished]
        held = self._insist(lambda: self._read_held(leases)) if leases else set()
        lost = [entry for entry in finished if entry.job.lease not in held]
        if lost:
            _report_lost(lost, f"{type(error).__name__}: {error}".splitlines()[0])
            self._listener.on_completed(lost)
        return [entry for entry in finished if entry.job.lease in held]

    def _read_held(self, leases: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        with read_only(self._engine) as connection:
            return held_leases(connection, leases)

    def _commit(self, requests: Sequence[int], finished: Sequence[Finished]) -> None:
        current = list(finished)
        while True:  # ends, because each round has fewer jobs (StaleLeases.still_leased)
            try:
                work = partial(self._transaction, requests=requests, finished=current)
                with metrics.BATCH_SECONDS.time():
                    acquired, messages = self._insist(partial(run_transaction, self._engine, work, _point(current)))
                break
            except StaleLeases as stale:
                rest = stale.still_leased(current)
                _report_lost([entry for entry in current if entry.job.lease in stale.leases], str(stale))
                current = rest
        _count(current)
        self._listener.on_completed(finished)
        self._listener.on_acquired(acquired)
        self._send(messages)

    def _transaction(
        self, connection: Connection, *, requests: Sequence[int], finished: Sequence[Finished]
    ) -> tuple[Acquired, list[JobMessage]]:
        messages = complete(connection, finished) if finished else []
        acquired = self._leases.acquire(connection, requests) if requests else Acquired()
        return acquired, messages

    def _insist(self, attempt: Callable[[], T]) -> T:
        """Return the result of ``attempt``, repeated as long as the database is unreachable.

        Raises:
            ConflictRetriesExhausted: the attempt raised this error MOST_CONFLICTS times.
        """
        wait_s, conflicts = 0.1, 0
        while True:
            try:
                return attempt()
            except StaleLeases:
                raise
            except ConflictRetriesExhausted:
                conflicts += 1
                if conflicts == MOST_CONFLICTS:
                    raise
                log.warning("conflicts", next_try_s=wait_s)
            except Exception as error:
                if not is_unreachable(error):
                    raise
                log.warning("database_away", why=str(error).splitlines()[0], next_try_s=wait_s)
                self._moved_on = time.monotonic()
            time.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _send(self, messages: Sequence[JobMessage]) -> None:
        """Send the messages of jobs that were woken. Messages that cannot be sent now stay in the outbox."""
        if not messages:
            return
        try:
            before(Failpoint.WAKE_PUBLISH)
            self._job_queue.send(messages)
            after(Failpoint.WAKE_PUBLISH)
            clear = partial(forget_sent, job_ids=[message.job_id for message in messages])
            run_transaction(self._engine, clear, Failpoint.WAKE_CLEAR)
        except QueueUnavailable as error:
            log.warning("jobs_not_sent", jobs=len(messages), why=str(error))
        except Exception as error:
            if is_unreachable(error):
                log.warning("outbox_not_cleared", jobs=len(messages), why=str(error).splitlines()[0])
            else:  # the results are committed, and the sweeper sends the messages
                log.exception("outbox_not_cleared", jobs=len(messages))


def _report_lost(lost: Sequence[Finished], why: str) -> None:
    metrics.LEASES_LOST.labels("write").inc(len(lost))
    log.warning("leases_lost", jobs=[str(entry.job.uuid) for entry in lost], why=why)


def _count(completed: Sequence[Finished]) -> None:
    """Add the outcomes of these jobs to the metrics."""
    ends = Counter((entry.job.kind, type(entry.outcome)) for entry in completed)
    for (kind, outcome), jobs in ends.items():
        if outcome is Paused:
            metrics.JOBS_PAUSED.labels(kind).inc(jobs)
        elif outcome is Requeued:
            metrics.JOBS_REQUEUED.inc(jobs)
        else:
            metrics.JOBS_FINISHED.labels(kind, outcome.__name__.lower()).inc(jobs)


def _point(finished: Sequence[Finished]) -> Failpoint:
    """Return the failpoint of a batch that completes these jobs."""
    if not finished:
        return Failpoint.LEASE_COMMIT
    return Failpoint.COMPLETION_COMMIT if finished[0].final.release is None else Failpoint.RELEASE_COMMIT
