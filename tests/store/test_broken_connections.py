"""Connections that break at the worst moment leave nobody in doubt, and undo nothing."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from bulkdeploy.domain.errors import OutcomeUnknown
from bulkdeploy.embedded.postgres import PORT
from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.store.accounts.callers import BY_API_KEY
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.commit_outcome import mark_transaction, was_committed
from bulkdeploy.store.database.engine import create_engine, create_reading_engine, read_only, run_transaction
from tests.chaos.proxy import Network, Proxy

BEFORE = f"{Failpoint.CALL_COMMIT}.before"


@pytest.fixture
def proxy(database_url: str, tmp_path: Path) -> Iterator[Proxy]:
    """A proxy before the test's database."""
    sockets = Path(str(make_url(database_url).query["host"]))
    network = Network()
    proxy = Proxy(network, tmp_path / f".s.PGSQL.{PORT}", sockets / f".s.PGSQL.{PORT}")
    yield proxy
    proxy.close()
    network.close()


@pytest.fixture
def proxied(proxy: Proxy, database_url: str) -> Iterator[Engine]:
    """An engine whose connections go through the proxy; a table to write to."""
    assert isinstance(proxy.address, Path)
    url = make_url(database_url).update_query_dict({"host": str(proxy.address.parent)})
    engine = create_engine(url.render_as_string(hide_password=False))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE written (number integer)"))
    yield engine
    failpoints.arm(None)
    engine.dispose()


def write(connection: Connection) -> str:
    """A row; what it was that ran."""
    connection.execute(text("INSERT INTO written VALUES (1)"))
    return "done"


def rows(database_url: str) -> int:
    """How many were written, past the proxy."""
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT count(*) FROM written").fetchone()
    assert found is not None
    return int(found[0])


def test_a_commit_whose_answer_was_lost_is_found_out(proxy: Proxy, proxied: Engine, database_url: str) -> None:
    """The server committed and nobody heard: the caller is told that it is done."""

    def break_after_commit() -> None:
        while rows(database_url) == 0:
            time.sleep(0.01)
        proxy.swallow_answers(swallow=False)
        proxy.cut()

    breaker = Thread(target=break_after_commit)

    def fault(place: str) -> None:
        if place == BEFORE:
            proxy.swallow_answers(swallow=True)
            breaker.start()

    failpoints.arm(fault)
    assert run_transaction(proxied, write, Failpoint.CALL_COMMIT) == "done"
    breaker.join()
    assert rows(database_url) == 1


def test_a_number_from_the_servers_earlier_life_proves_nothing(engine: Engine) -> None:
    """A restarted server may have lost the commit and given its number away: only a refusal is certain then."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE written (number integer)"))
        done = mark_transaction(connection)
    with engine.connect() as connection:
        write(connection)
        undone = mark_transaction(connection)
    assert done is not None
    assert undone is not None
    assert was_committed(engine, done)
    earlier = done.life_began - timedelta(seconds=1)
    with pytest.raises(OutcomeUnknown):
        was_committed(engine, replace(done, life_began=earlier))
    assert not was_committed(engine, replace(undone, life_began=earlier))
    assert not was_committed(engine, replace(done, number=str(int(done.number) + 10**9), life_began=earlier))


def test_a_commit_that_never_arrived_is_an_error(proxy: Proxy, proxied: Engine, database_url: str) -> None:
    """The connection broke before the server heard of the commit: the caller is told, and nothing was changed."""

    def cut(place: str) -> None:
        if place == BEFORE:
            proxy.cut()

    failpoints.arm(cut)
    with pytest.raises(OperationalError):
        run_transaction(proxied, write, Failpoint.CALL_COMMIT)
    assert rows(database_url) == 0


def test_a_connection_that_breaks_after_reading_is_no_error(proxy: Proxy, proxied: Engine) -> None:
    """What was read is true; a call that has made its job meanwhile is not answered with an error."""
    with read_only(proxied) as connection:
        found = connection.execute(text("SELECT count(*) FROM written")).scalar_one()
        proxy.cut()
    assert found == 0


def test_a_query_past_sqlalchemy_gives_up_a_connection_that_broke(
    proxy: Proxy, proxied: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller is told that the database is away; nobody tries to tidy up what is gone, or gets it again."""
    engine = create_reading_engine(proxied.url.render_as_string(hide_password=False), pool_size=1)
    with engine.connect() as connection:
        assert BY_API_KEY.rows(connection, api_keys="nobody's") == []
        proxy.cut()
        with pytest.raises(psycopg.OperationalError) as reported:
            BY_API_KEY.rows(connection, api_keys="nobody's")
    assert is_unreachable(reported.value)
    assert caplog.records == []
    with engine.connect() as connection:
        assert BY_API_KEY.rows(connection, api_keys="nobody's") == []
    engine.dispose()


def test_who_sleeps_in_a_transaction_loses_it_and_its_locks(database_url: str) -> None:
    """PostgreSQL ends it, so nobody waits for its locks any longer; the sleeper is told, and changed nothing."""
    engine = create_engine(database_url, pool_size=2)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE written (number integer)"))

    def sleep(connection: Connection) -> None:
        limit = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
        assert limit == "1min"
        connection.execute(text("LOCK TABLE written; SET LOCAL idle_in_transaction_session_timeout = 10"))
        with engine.connect() as other:
            write(other)  # waits for the lock
            other.commit()
        connection.execute(text("INSERT INTO written VALUES (2)"))

    with pytest.raises(DBAPIError) as reported:
        run_transaction(engine, sleep, Failpoint.CALL_COMMIT)
    assert is_unreachable(reported.value)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM written")).scalar_one() == 1
    engine.dispose()


@pytest.mark.parametrize("make", [create_engine, create_reading_engine])
def test_who_is_gone_without_a_word_is_noticed(database_url: str, make: Callable[[str], Engine]) -> None:
    """Client and server look after each other every few seconds, on connections of any use."""
    engine = make(database_url)
    with engine.connect() as connection:
        seen = connection.execute(
            text("SELECT name, source FROM pg_settings WHERE name ~ '^tcp_(keepalives|user_timeout)'")
        )
        assert {row.source for row in seen} == {"client"}
        driver_connection = connection.connection.driver_connection
        assert driver_connection is not None
        requested = driver_connection.info.get_parameters()
    engine.dispose()
    assert requested["tcp_user_timeout"] == "30000"
    assert [requested[f"keepalives_{what}"] for what in ("idle", "interval", "count")] == ["10", "5", "3"]
