"""The one order of locks: watched, written down, and the only way to an advisory lock."""

import re
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.store.locks import Lock, take_lock
from tests.support.runs.lock_order import LockOrder

ROOT = Path(__file__).parents[2]
HOSTS = text("SELECT FROM host_capacity WHERE host_id = 1 FOR UPDATE")
POOLS = text("SELECT FROM storage_pools p WHERE EXISTS (SELECT FROM hosts) ORDER BY id FOR NO KEY UPDATE OF p")
MINTED = text("SELECT FROM storage_pools ORDER BY id FOR UPDATE SKIP LOCKED")


def test_locks_may_be_taken_in_their_order_and_again(engine: Engine) -> None:
    """Ascending ranks, a lock that is held already, and rows that nobody waits for are let through."""
    with engine.begin() as connection:
        take_lock(connection, Lock.ZONE_RULES, 1, shared=True)
        take_lock(connection, Lock.ZONE_PLANS, 1)
        connection.execute(HOSTS)
        connection.execute(POOLS)
        connection.execute(HOSTS)
    with engine.begin() as connection:
        connection.execute(MINTED)
        connection.execute(HOSTS)


def test_a_lock_out_of_order_fails_the_test(engine: Engine) -> None:
    """Rows after rows, and an advisory lock after rows, in the wrong order are told with both names."""
    with engine.begin() as connection:
        connection.execute(POOLS)
        with pytest.raises(LockOrder, match="HOSTS is taken while POOLS is held"):
            connection.execute(HOSTS)
        with pytest.raises(LockOrder, match="ZONE_PLANS is taken while POOLS is held"):
            take_lock(connection, Lock.ZONE_PLANS, 1)


def test_what_a_savepoint_undoes_is_free_again(engine: Engine) -> None:
    """Locks taken since a savepoint end with it, and so does the next transaction begin with none."""
    with engine.begin() as connection:
        trial = connection.begin_nested()
        connection.execute(POOLS)
        trial.rollback()
        connection.execute(HOSTS)
        connection.execute(POOLS)
    with engine.begin() as connection:
        connection.execute(HOSTS)


def test_the_record_names_every_lock_in_order() -> None:
    """ADR 5 has a row for each lock, in the order that the code has."""
    record = (ROOT / "docs" / "adr" / "0005-locks.md").read_text()
    assert re.findall(r"^\| \d+ \| `(\w+)` \|", record, re.MULTILINE) == [lock.name for lock in Lock]


def test_advisory_locks_are_taken_by_name() -> None:
    """No other file of the store waits for an advisory lock than the one that names them, but for many at once.

    A function of the database is told the lock's number by who calls it.
    """
    store = ROOT / "bulkdeploy" / "store"
    users = {path.relative_to(store).as_posix() for path in store.rglob("*.*") if _takes_one(path)}
    assert users == {"locks.py", "jobs/job_leases.py", "migrations/versions/0067_pre_resource_details.sql"}
    leases = (store / "jobs" / "job_leases.py").read_text()
    assert "Lock.DRIVER_TURNS.value" in leases


def _takes_one(path: Path) -> bool:
    return path.suffix in (".py", ".sql") and "pg_advisory" in path.read_text()
