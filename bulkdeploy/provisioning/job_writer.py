"""Writing what gathers: batches of lease requests and finished jobs, in as few transactions as there can be.

A batch is one transaction for everything that gives nothing back, and one for each sort of giving back. Dying
at any line is harmless: a request not written is a message that the sweeper sends again, an end not written
is a lease that runs out.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy import meters
from bulkdeploy.crash_points import CrashPoint, after, before
from bulkdeploy.domain.errors import ConflictRetriesExhausted
from bulkdeploy.provisioning.outcome import GiveBack, HandedBack, Paused
from bulkdeploy.provisioning.settling import Finished, Settler, StaleLeases
from bulkdeploy.provisioning.taking import LeaseTaker, Taken
from bulkdeploy.queue.job_queue import JobMessage, JobQueue, QueueUnavailable
from bulkdeploy.store.availability import is_unreachable
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.outbox import forget_sent

log = structlog.get_logger(__name__)

LONGEST_WAIT_S = 5.0

Entry = int | Finished
"""A job id to lease, or a finished job."""


class Listener(Protocol):
    """Who is told what became of entries, after the commit."""

    def on_taken(self, taken: Taken) -> None:
        """Leases were taken, and some requests refused."""

    def on_settled(self, finished: Sequence[Finished]) -> None:
        """These jobs were settled, or their leases were lost: nothing more is to be done for them."""


class JobWriter:
    """Writes batches. Used by one thread.

    Args:
        engine: the database; while it cannot be reached the writer waits and repeats.
        job_queue: where woken jobs are sent.
        taker, settler: what is written.
        listener: who is told.
    """

    def __init__(
        self, engine: Engine, job_queue: JobQueue, taker: LeaseTaker, settler: Settler, listener: Listener
    ) -> None:
        self._engine, self._job_queue = engine, job_queue
        self._taker, self._settler, self._listener = taker, settler, listener

    def write(self, entries: Sequence[Entry]) -> None:
        """Write a batch; never raises."""
        requests: list[int] = []
        ends: dict[GiveBack, list[Finished]] = defaultdict(list)
        for entry in entries:
            if isinstance(entry, Finished):
                ends[entry.settlement.give_back].append(entry)
            else:
                requests.append(entry)
        self._write_batch(requests, ends.pop(GiveBack.NOTHING, []))
        for finished in ends.values():
            self._write_batch([], finished)

    def _write_batch(self, requests: list[int], finished: list[Finished]) -> None:
        """One transaction; on a defect one per entry, so that one bad row stops only itself."""
        if not requests and not finished:
            return
        try:
            self._commit(requests, finished)
        except Exception:
            log.exception("batch_not_written", requests=len(requests), finished=len(finished))
            if len(requests) + len(finished) == 1:
                self._listener.on_taken(Taken(refused=len(requests)))
                self._listener.on_settled(finished)
                return
            for job_id in requests:
                self._write_batch([job_id], [])
            for entry in finished:
                self._write_batch([], [entry])

    def _commit(self, requests: Sequence[int], finished: Sequence[Finished]) -> None:
        current = list(finished)
        while True:
            try:
                work = partial(self._transaction, requests=requests, finished=current)
                with meters.BATCH_SECONDS.time():
                    taken, messages = self._insist(work, _point(current))
                break
            except StaleLeases as stale:
                lost = [str(entry.job.uuid) for entry in current if entry.job.id in stale.job_ids]
                meters.LEASES_LOST.labels("write").inc(len(lost))
                log.warning("leases_lost", jobs=lost)
                current = [entry for entry in current if entry.job.id not in stale.job_ids]
        _count(current)
        self._listener.on_settled(finished)
        self._listener.on_taken(taken)
        self._send(messages)

    def _transaction(
        self, connection: Connection, *, requests: Sequence[int], finished: Sequence[Finished]
    ) -> tuple[Taken, list[JobMessage]]:
        messages = self._settler.settle(connection, finished) if finished else []
        taken = self._taker.take(connection, requests) if requests else Taken()
        return taken, [*messages, *taken.messages]

    def _insist(
        self, work: Callable[[Connection], tuple[Taken, list[JobMessage]]], at: CrashPoint
    ) -> tuple[Taken, list[JobMessage]]:
        """Commit ``work``, however long the database is away."""
        wait_s = 0.1
        while True:
            try:
                return run_transaction(self._engine, work, at)
            except StaleLeases:
                raise
            except ConflictRetriesExhausted:
                log.warning("conflicts", next_try_s=wait_s)
            except Exception as error:
                if not is_unreachable(error):
                    raise
                log.warning("database_away", why=str(error).splitlines()[0], next_try_s=wait_s)
            time.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _send(self, messages: Sequence[JobMessage]) -> None:
        """Send jobs that were woken; what cannot be sent now stays in the outbox."""
        if not messages:
            return
        try:
            before(CrashPoint.WAKE_PUBLISH)
            self._job_queue.send(messages)
            after(CrashPoint.WAKE_PUBLISH)
            clear = partial(forget_sent, job_ids=[message.job_id for message in messages])
            run_transaction(self._engine, clear, CrashPoint.WAKE_CLEAR)
        except QueueUnavailable as error:
            log.warning("jobs_not_sent", jobs=len(messages), why=str(error))
        except Exception as error:
            if not is_unreachable(error):
                raise
            log.warning("outbox_not_cleared", jobs=len(messages), why=str(error).splitlines()[0])


def _count(settled: Sequence[Finished]) -> None:
    """Count what became of these jobs."""
    ends = Counter((entry.job.kind, type(entry.outcome)) for entry in settled)
    for (kind, outcome), jobs in ends.items():
        if outcome is Paused:
            meters.JOBS_PAUSED.labels(kind).inc(jobs)
        elif outcome is HandedBack:
            meters.JOBS_HANDED_BACK.inc(jobs)
        else:
            meters.JOBS_FINISHED.labels(kind, outcome.__name__.lower()).inc(jobs)


def _point(finished: Sequence[Finished]) -> CrashPoint:
    """What a batch that settles these is called among the crash points."""
    if not finished:
        return CrashPoint.LEASE_COMMIT
    gives_back = finished[0].settlement.give_back is not GiveBack.NOTHING
    return CrashPoint.GIVE_BACK_COMMIT if gives_back else CrashPoint.SETTLE_COMMIT
