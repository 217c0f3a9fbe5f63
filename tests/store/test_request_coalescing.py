"""One look for all who want something at the same moment: each gets its own, none older than its question."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest
from sqlalchemy import Connection, Engine, text

from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.callers import caller_by_api_key
from bulkdeploy.store.database.request_coalescing import Coalescer
from tests.support.runs.waiting import PATIENCE_S

LATER = (2, 3, 4, 5)


class Crowd:
    """Coalesced requests for numbers' squares, whose first look takes as long as it is told to."""

    def __init__(self, engine: Engine, pool: ThreadPoolExecutor, patience_s: float = 60) -> None:
        self.looks: list[list[int]] = []
        self.first_began, self.may_end = Event(), Event()
        self.broken: set[int] = set()
        self._engine, self._pool = engine, pool
        self.shared = Coalescer(self._read, patience_s)

    def find(self, number: int) -> "Future[int | None]":
        """Ask for a number's square in a thread of its own."""
        return self._pool.submit(self._find, number)

    def gather(self) -> list["Future[int | None]"]:
        """Let one look, and others come meanwhile."""
        requested = [self.find(1)]
        assert self.first_began.wait(PATIENCE_S)
        requested += [self.find(number) for number in LATER]
        while self.shared.waiting < len(LATER):
            time.sleep(0.01)
        self.may_end.set()
        return requested

    def _find(self, number: int) -> int | None:
        with self._engine.connect() as connection:
            return self.shared.find(connection, number)

    def _read(self, connection: Connection, keys: Sequence[int]) -> Mapping[int, int]:
        self.looks.append(sorted(keys))
        if not self.first_began.is_set():
            self.first_began.set()
            assert self.may_end.wait(PATIENCE_S)
        if len(self.looks) in self.broken:
            raise ConnectionError
        query = text("SELECT n, n * n FROM unnest(CAST(:keys AS int[])) AS n WHERE n < 5")
        return {row[0]: row[1] for row in connection.execute(query, {"keys": list(keys)})}


@pytest.fixture
def crowd(engine: Engine) -> Crowd:
    """A crowd on the test's database."""
    return Crowd(engine, ThreadPoolExecutor(8))


def test_who_comes_while_one_looks_is_answered_by_the_next_look(crowd: Crowd) -> None:
    """Not by the one that began before: it may not have seen what was committed meanwhile."""
    assert [requested.result(PATIENCE_S) for requested in crowd.gather()] == [1, 4, 9, 16, None]
    assert crowd.looks == [[1], list(LATER)]


def test_a_coalesced_request_that_fails_is_retried_by_each_caller(crowd: Crowd) -> None:
    """All look for themselves then: whose key or connection was at fault is told so, and nobody else."""
    crowd.broken = {2, 3}
    outcomes = [requested.exception(30) or requested.result() for requested in crowd.gather()]
    failed = [outcome for outcome in outcomes if isinstance(outcome, ConnectionError)]
    right = [outcome for outcome, wanted in zip(outcomes, (1, 4, 9, 16, None), strict=True) if outcome == wanted]
    assert (len(failed), len(right)) == (1, len(LATER))
    assert crowd.looks[:2] == [[1], list(LATER)]
    assert sorted(crowd.looks[2:]) == [[number] for number in LATER]
    assert crowd.find(3).result(PATIENCE_S) == 9


def test_a_stuck_request_stalls_no_later_caller(engine: Engine) -> None:
    """Who comes while a look is stuck gives up waiting for it, and those who come then wait for nobody that is."""
    crowd = Crowd(engine, ThreadPoolExecutor(8), patience_s=0.2)
    stuck = crowd.find(1)
    assert crowd.first_began.wait(PATIENCE_S)
    assert [crowd.find(number).result(PATIENCE_S) for number in LATER] == [4, 9, 16, None]
    assert [requested.result(PATIENCE_S) for requested in map(crowd.find, LATER)] == [4, 9, 16, None]
    assert not stuck.done()
    crowd.may_end.set()
    assert stuck.result(PATIENCE_S) == 1
    assert crowd.find(2).result(PATIENCE_S) == 4


def test_a_key_that_is_disabled_is_seen_at_once(system: System) -> None:
    """Whoever is looked up is looked up anew each time."""
    with system.engine.begin() as connection:
        key = connection.execute(text("SELECT api_key FROM api_keys")).scalar_one()
    for state in ("disabled", "enabled"):
        with system.engine.begin() as connection:
            connection.execute(text("UPDATE users SET state = :state"), {"state": state})
        with system.reading.connect() as connection:
            found = caller_by_api_key(connection, key)
            assert found is not None
            assert found.enabled is (state == "enabled")
            assert caller_by_api_key(connection, f"{key}x") is None
