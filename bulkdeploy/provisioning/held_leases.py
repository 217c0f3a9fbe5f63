"""The leases of a process, and the thread that renews them during long driver calls."""

import time
from collections.abc import Callable
from functools import partial
from threading import Event, Lock, Thread

import structlog
from sqlalchemy import Engine

from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.outcome import LeaseLost
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.jobs.jobs import LeasedJob, held_leases, renew_leases
from bulkdeploy.telemetry import metrics

log = structlog.get_logger(__name__)

RENEWALS_PER_LEASE = 3


def keep_lease(engine: Engine, job: LeasedJob, lease_seconds: float) -> None:
    """Renew the job's lease before the job undoes a change.

    A worker that has lost its lease must not undo the work of the next worker. Hypervisors that compare fences
    reject such calls as well, but not all hypervisors do.

    Raises:
        LeaseLost: another worker has the job.
    """
    renew = partial(renew_leases, fences={job.id: job.fence}, lease_seconds=lease_seconds)
    if not run_transaction(engine, renew, Failpoint.KEEP_COMMIT):
        raise LeaseLost(f"job {job.id} lost its lease while its driver failed")


class HeldLeases:
    """The leases of this process, which a thread renews until the jobs are completed. It is thread-safe.

    Args:
        engine: the database.
        lease_seconds: the duration of a lease in seconds; each lease is renewed after a third of it.
        clock: returns seconds that never decrease.
    """

    def __init__(
        self, engine: Engine, lease_seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine, self._lease_seconds, self._clock = engine, lease_seconds, clock
        self._lock = Lock()
        self._held: dict[int, tuple[LeasedJob, float]] = {}
        self._quarantined: set[int] = set()
        self._came_round = clock()
        self._ended = Event()
        self._thread = Thread(target=self._run, name="lease-renewal", daemon=True)
        self._thread.start()

    def add(self, job: LeasedJob) -> None:
        """Add a lease that was just acquired."""
        with self._lock:
            self._held[job.id] = (job, self._clock())
            if job.runs_alone:
                self._quarantined.add(job.id)

    def discard(self, job: LeasedJob) -> None:
        """Remove a lease, so that it is not renewed any more. A newer lease of the same job is kept."""
        with self._lock:
            held = self._held.get(job.id)
            if held is not None and held[0].fence == job.fence:
                del self._held[job.id]
                self._quarantined.discard(job.id)

    def quarantined(self) -> int:
        """Return how many leases are of jobs whose next crash is their last (``job_leases.DriverLimits``)."""
        with self._lock:
            return len(self._quarantined)

    def __len__(self) -> int:
        """Return the number of leases that this process has."""
        return len(self._held)

    def is_lost(self, job: LeasedJob) -> bool:
        """Return whether the job was taken over or has ended. Returns False if the database is unreachable.

        After a lost lease, any statement may fail because of rows that the next worker wrote or deleted, such as a
        claim that exists already. Such an error is no defect.
        """
        try:
            with read_only(self._engine) as connection:
                return not held_leases(connection, [job.lease])
        except Exception as error:
            if not is_unreachable(error):
                raise
            return False

    def renew_old(self) -> None:
        """Renew, in one statement, all leases of which a third of the lease time has passed."""
        now = self._clock()
        oldest = now - self._lease_seconds / RENEWALS_PER_LEASE
        with self._lock:
            due = {job.id: job for job, since in self._held.values() if since <= oldest}
        if not due:
            return
        fences = {job.id: job.fence for job in due.values()}
        renew = partial(renew_leases, fences=fences, lease_seconds=self._lease_seconds)
        kept = run_transaction(self._engine, renew, Failpoint.RENEW_COMMIT)
        with self._lock:
            for job in due.values():
                held = self._held.get(job.id)
                if held is None or held[0].fence != job.fence:
                    continue
                if job.id in kept:
                    self._held[job.id] = (job, now)
                else:
                    del self._held[job.id]
                    self._quarantined.discard(job.id)
                    metrics.LEASES_LOST.labels("renewal").inc()
                    log.warning("lease_lost", job=str(job.uuid), fence=job.fence)

    def idle_s(self) -> float:
        """Return the seconds since the last round of the thread that renews leases.

        If the result is much larger than the lease time, the thread is stuck or dead.
        """
        return self._clock() - self._came_round

    def close(self) -> None:
        """Stop renewing leases, and wait for the renewing thread to end."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._lease_seconds / RENEWALS_PER_LEASE / 4):
            try:
                self.renew_old()
            except Exception as error:  # the next round tries again, and an expired lease does no harm
                if is_unreachable(error):
                    log.warning("leases_not_renewed", leases=len(self), why=str(error).splitlines()[0])
                else:
                    log.exception("leases_not_renewed", leases=len(self))
            self._came_round = self._clock()
            metrics.JOBS_IN_HAND.set(len(self))
