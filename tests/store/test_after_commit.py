"""What is registered for after the commit runs then, once, and never after a rollback."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, Engine, text

from bulkdeploy.store.database.engine import TransactionConflict, after_commit, run_transaction


class Failed(Exception):
    """Something went wrong."""


@pytest.fixture
def done() -> list[str]:
    """What the actions did, in order."""
    return []


@pytest.fixture(autouse=True)
def written(engine: Engine) -> Iterator[None]:
    """A table to write to."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE written (number integer)"))
    yield
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE written"))


def write(connection: Connection) -> None:
    """A row."""
    connection.execute(text("INSERT INTO written VALUES (1)"))


def count(engine: Engine) -> int:
    """How many rows were committed."""
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM written")).scalar_one())


def saying(done: list[str], word: str) -> Callable[[Engine], None]:
    """An action that says its word, and how many rows it found committed."""
    return lambda engine: done.append(f"{word} {count(engine)}")


def test_actions_run_after_the_commit_in_order(engine: Engine, done: list[str]) -> None:
    """They find the transaction's rows, and its result is what its work returned."""

    def work(connection: Connection) -> str:
        after_commit(connection, saying(done, "first"))
        after_commit(connection, saying(done, "second"))
        write(connection)
        assert done == []
        return "result"

    assert run_transaction(engine, work) == "result"
    assert done == ["first 1", "second 1"]


def test_no_action_runs_after_a_rollback(engine: Engine, done: list[str]) -> None:
    """Nothing was done, so there is nothing to tell."""

    def work(connection: Connection) -> None:
        after_commit(connection, saying(done, "action"))
        write(connection)
        raise Failed

    with pytest.raises(Failed):
        run_transaction(engine, work)
    assert (done, count(engine)) == ([], 0)


def test_a_repeated_transaction_runs_only_the_actions_of_its_last_attempt(engine: Engine, done: list[str]) -> None:
    """Those of an attempt that lost a race are forgotten with it."""
    attempts: list[str] = []

    def work(connection: Connection) -> None:
        attempts.append("attempt")
        after_commit(connection, saying(done, f"attempt {len(attempts)}:"))
        write(connection)
        if len(attempts) < 3:
            raise TransactionConflict

    run_transaction(engine, work)
    assert (done, count(engine)) == (["attempt 3: 1"], 1)


def test_an_action_that_fails_keeps_no_other_from_running(engine: Engine, done: list[str]) -> None:
    """The transaction stays committed, and whoever ran it learns of the failure."""

    def fail(_: Engine) -> None:
        raise Failed

    def work(connection: Connection) -> None:
        after_commit(connection, fail)
        after_commit(connection, saying(done, "second"))
        write(connection)

    with pytest.raises(Failed):
        run_transaction(engine, work)
    assert (done, count(engine)) == (["second 1"], 1)


def test_a_conflict_in_an_action_does_not_repeat_its_transaction(engine: Engine) -> None:
    """That one is committed."""

    def lose(_: Engine) -> None:
        raise TransactionConflict

    def work(connection: Connection) -> None:
        write(connection)
        after_commit(connection, lose)

    with pytest.raises(TransactionConflict):
        run_transaction(engine, work)
    assert count(engine) == 1


def test_an_action_may_run_a_transaction_with_actions_of_its_own(engine: Engine, done: list[str]) -> None:
    """Each transaction has its own."""

    def inner(connection: Connection) -> None:
        write(connection)
        after_commit(connection, saying(done, "inner"))

    def work(connection: Connection) -> None:
        write(connection)
        after_commit(connection, lambda engine: run_transaction(engine, inner))

    run_transaction(engine, work)
    assert done == ["inner 2"]


def test_a_connection_without_a_transaction_of_ours_takes_no_action(engine: Engine, done: list[str]) -> None:
    """Nobody would ever run it."""
    with engine.begin() as connection, pytest.raises(KeyError):
        after_commit(connection, saying(done, "never"))
    assert done == []
