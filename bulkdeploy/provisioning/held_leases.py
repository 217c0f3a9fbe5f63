"""The leases a process holds, and the thread that keeps them while drivers take their time."""

import time
from collections.abc import Callable
from functools import partial
from threading import Event, Lock, Thread

import structlog
from sqlalchemy import Engine

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.provisioning.outcome import LeaseLost
from bulkdeploy.store.availability import is_unreachable
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.jobs import LeasedJob, renew_leases

log = structlog.get_logger(__name__)

RENEWALS_PER_LEASE = 3


def keep_lease(engine: Engine, job: LeasedJob, lease_seconds: float) -> None:
    """Before anything is undone: whoever lost the lease meanwhile must not undo what its successor made.

    Hypervisors that compare fences refuse it as well; not all do.

    Raises:
        LeaseLost: somebody else holds the job.
    """
    renew = partial(renew_leases, fences={job.id: job.fence}, lease_seconds=lease_seconds)
    if not run_transaction(engine, renew, CrashPoint.KEEP_COMMIT):
        raise LeaseLost(f"job {job.id} lost its lease while its driver failed")


class HeldLeases:
    """Leases from when they were taken until their job was settled. Safe to share between threads.

    Args:
        engine: where leases are renewed.
        lease_seconds: how long a lease holds without renewal; each is renewed after a third of it.
        clock: seconds that only grow.
    """

    def __init__(
        self, engine: Engine, lease_seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine, self._lease_seconds, self._clock = engine, lease_seconds, clock
        self._lock = Lock()
        self._held: dict[int, tuple[int, float]] = {}
        self._ended = Event()
        self._thread = Thread(target=self._run, name="lease-renewal", daemon=True)
        self._thread.start()

    def add(self, job: LeasedJob) -> None:
        """A lease was taken just now."""
        with self._lock:
            self._held[job.id] = (job.fence, self._clock())

    def discard(self, job: LeasedJob) -> None:
        """The lease is needed no more; a newer one of the same job, if this process has it, stays."""
        with self._lock:
            held = self._held.get(job.id)
            if held is not None and held[0] == job.fence:
                del self._held[job.id]

    def __len__(self) -> int:
        """How many leases are held."""
        return len(self._held)

    def renew_old(self) -> None:
        """Renew, in one statement, every lease a third of whose time has passed."""
        now = self._clock()
        oldest = now - self._lease_seconds / RENEWALS_PER_LEASE
        with self._lock:
            due = {job: fence for job, (fence, since) in self._held.items() if since <= oldest}
        if not due:
            return
        renew = partial(renew_leases, fences=due, lease_seconds=self._lease_seconds)
        kept = run_transaction(self._engine, renew, CrashPoint.RENEW_COMMIT)
        with self._lock:
            for job, fence in due.items():
                if self._held.get(job, (None, 0.0))[0] != fence:
                    continue
                if job in kept:
                    self._held[job] = (fence, now)
                else:
                    del self._held[job]
                    log.warning("lease_lost", job=job, fence=fence)

    def close(self) -> None:
        """Renew no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._lease_seconds / RENEWALS_PER_LEASE / 4):
            try:
                self.renew_old()
            except Exception as error:  # the next round tries again, and a lease that runs out is lost safely
                if is_unreachable(error):
                    log.warning("database_away", leases=len(self), why=str(error).splitlines()[0])
                else:
                    log.exception("leases_not_renewed", leases=len(self))
