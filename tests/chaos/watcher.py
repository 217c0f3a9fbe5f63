"""Who watches from outside: how many jobs there are, and how long nothing ended."""

import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread

from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from bulkdeploy.queue.job_queue import ALL_QUEUES
from tests.chaos.system import Program
from tests.support.zones.zone_queries import Zone

EVERY_S = 0.25
MOST_SILENT = 100

_LOOK = text(
    "SELECT count(*) FILTER (WHERE status <> 0) AS finished, count(*) FILTER (WHERE status = 0) AS unfinished,"
    " count(*) FILTER (WHERE status = 0 AND phase = 'queued') AS queued,"
    " count(*) FILTER (WHERE status = 0 AND phase = 'running') AS running,"
    " count(*) FILTER (WHERE status = 0 AND phase = 'waiting') AS waiting,"
    " (SELECT count(*) FROM outbox) AS outbox,"
    " (SELECT count(*) FROM virtual_machines WHERE removed IS NULL AND state <> 'Error') AS live_vms"
    " FROM async_jobs"
)


@dataclass(frozen=True, slots=True)
class Look:
    """Jobs and VMs at one moment."""

    finished: int = 0
    unfinished: int = 0
    queued: int = 0
    live_vms: int = 0
    running: int = 0
    waiting: int = 0
    outbox: int = 0
    messages: int = -1
    consumers: int = -1
    """In Valkey; -1: it does not say."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which no job ended although some were queued: when it began and how long it was, in seconds."""

    began_s: float = 0.0
    length_s: float = 0.0
    look: Look = field(default_factory=Look)
    """Towards its end."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What changes whenever anything comes of any job.

    ``due``: jobs that wait for nothing but a worker, neither for another job of their VM nor for their next try.
    """

    unfinished: int
    due: int
    tries: int
    waiting: int


def look_for_progress(zone: Zone) -> Progress:
    """Jobs now."""
    (row,) = zone.rows(
        "SELECT count(*) FILTER (WHERE status = 0) AS unfinished, coalesce(sum(attempts), 0)::bigint AS tries,"
        " count(*) FILTER (WHERE status = 0 AND phase = 'waiting') AS waiting,"
        " count(*) FILTER (WHERE status = 0 AND (phase <> 'waiting' OR (retry_at <= now() AND NOT EXISTS (SELECT"
        "   FROM async_jobs e WHERE (e.instance_type, e.instance_id) = (j.instance_type, j.instance_id)"
        "   AND e.status = 0 AND e.id < j.id)))) AS due FROM async_jobs j"
    )
    return Progress(**row._asdict())


def unfinished(zone: Zone) -> list[str]:
    """Where each job stands that has not ended."""
    rows = zone.rows(
        "SELECT id, uuid, kind, phase, attempts, lost_leases, instance_type, instance_id, parent_id, host_id,"
        " progress, id IN (SELECT job_id FROM outbox) AS unsent, extract(epoch FROM now() - created)::int AS age_s,"
        " extract(epoch FROM now() - retry_at)::int AS due_for_s,"
        " extract(epoch FROM now() - lease_until)::int AS lease_over_for_s"
        " FROM async_jobs WHERE status = 0 ORDER BY id LIMIT 20"
    )
    return [f"unfinished: {dict(row._asdict())}" for row in rows]


class Rounds:
    """Rounds of the sweeper that ended; a sweeper that is started again counts anew."""

    _METRIC = re.compile(r"^bulkdeploy_sweeper_rounds_total (\S+)$", re.MULTILINE)

    def __init__(self, sweeper: Program) -> None:
        self._sweeper = sweeper
        self._before = self._ended = self._silent = 0

    def ended(self) -> int:
        """How many.

        Raises:
            AssertionError: it did not answer many times in a row.
        """
        with suppress(OSError):
            found = self._METRIC.search(self._sweeper.get("/metrics")[1])
            now = int(float(found[1])) if found is not None else 0
            self._ended += now - self._before if now >= self._before else now
            self._before, self._silent = now, 0
            return self._ended
        self._silent += 1
        assert self._silent < MOST_SILENT, "the sweeper does not answer"
        return self._ended


class Watcher(Thread):
    """Looks again and again; while the database is away it waits."""

    def __init__(self, engine: Engine, redis: Redis) -> None:
        super().__init__(name="watcher", daemon=True)
        self._redis = redis
        self._engine = engine
        self._ended = Event()
        self._began = time.monotonic()
        self.now = Look()
        self.longest = Stall()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()

    def run(self) -> None:
        """Look until the end."""
        last_end = time.monotonic()
        while not self._ended.wait(EVERY_S):
            look = self._look()
            now = time.monotonic()
            if look is None:
                continue
            if look.finished > self.now.finished or self.now.queued == 0:
                last_end = now
            self.now = look
            if now - last_end > self.longest.length_s:
                self.longest = Stall(last_end - self._began, now - last_end, look)

    def _look(self) -> Look | None:
        with suppress(DBAPIError), self._engine.connect() as connection:
            return Look(**connection.execute(_LOOK).one()._asdict(), **self._look_at_queue())
        return None

    def _look_at_queue(self) -> dict[str, int]:
        with suppress(RedisError):
            clients = self._redis.client_list()
            return {
                "messages": sum(self._redis.llen(queue) for queue in ALL_QUEUES),
                "consumers": sum(client["cmd"] == "brpop" for client in clients),
            }
        return {}
