"""Cancelled deployments, as seen by driver threads: what was leased and has not begun does not begin any more."""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import structlog
from sqlalchemy import Engine

from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.deployments.deployments import is_cancelled
from bulkdeploy.store.jobs.jobs import LeasedJob

log = structlog.get_logger(__name__)

FRESH_S = 0.25
"""So much later than a cancel call was answered no job of its deployment begins. A process reads a deployment
no more often than this, however many jobs begin."""

REMEMBERED = 64


class CancelWatch:
    """Whether deployments were cancelled, at most ``FRESH_S`` ago. Safe to share between threads.

    Args:
        engine: the database; while it cannot be reached nothing counts as cancelled.
        clock: seconds that only grow.
    """

    def __init__(self, engine: Engine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._clock = engine, clock
        self._lock = Lock()
        self._read: OrderedDict[int, tuple[float, bool]] = OrderedDict()

    def stops(self, job: LeasedJob) -> bool:
        """Whether this job must not begin: it deploys for a cancelled deployment, and no earlier try began."""
        if job.attempts != 1 or job.deployment_id is None:
            return False
        with self._lock:
            read_at, cancelled = self._read.get(job.deployment_id, (0.0, False))
            if not cancelled and self._clock() - read_at >= FRESH_S:
                cancelled = self._look(job.deployment_id)
            return cancelled

    def _look(self, deployment_id: int) -> bool:
        now = self._clock()
        try:
            with read_only(self._engine) as connection:
                cancelled = is_cancelled(connection, deployment_id)
        except Exception as error:
            if not is_unreachable(error):
                raise
            log.warning("database_away", why=str(error).splitlines()[0])
            return False
        self._read[deployment_id] = (now, cancelled)
        self._read.move_to_end(deployment_id)
        if len(self._read) > REMEMBERED:
            self._read.popitem(last=False)
        return cancelled
