"""Who watches from outside: how many jobs there are, and how long nothing ended."""

import time
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

EVERY_S = 0.25

_LOOK = text(
    "SELECT count(*) FILTER (WHERE status <> 0) AS finished, count(*) FILTER (WHERE status = 0) AS unfinished,"
    " count(*) FILTER (WHERE status = 0 AND phase = 'queued') AS queued,"
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


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which no job ended although some were queued: when it began, and how long it was, in seconds."""

    began_s: float = 0.0
    length_s: float = 0.0


class Watcher(Thread):
    """Looks again and again; while the database is away it waits."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(name="watcher", daemon=True)
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
                self.longest = Stall(last_end - self._began, now - last_end)

    def _look(self) -> Look | None:
        with suppress(DBAPIError), self._engine.connect() as connection:
            return Look(**connection.execute(_LOOK).one()._asdict())
        return None
