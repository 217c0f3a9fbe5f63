"""What the service leaves in a session of the database: nothing, for behind a pooler it is somebody else's next."""

from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection, Engine, text

from bulkdeploy.store.database.engine import (
    Plans,
    WriteWhereReading,
    create_engine,
    create_reading_engine,
    read_only,
    run_transaction,
)

LEFT = (
    "SELECT name FROM pg_settings WHERE source = 'session'",
    "SELECT relname FROM pg_class WHERE relpersistence = 't'",
    "SELECT locktype FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    "SELECT pg_listening_channels()",
    "SELECT name FROM pg_cursors WHERE is_holdable",
)
PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql"
ENGINES: dict[str, Callable[..., Engine]] = {plans.value: partial(create_engine, plans=plans) for plans in Plans}


def work(connection: Connection) -> str:
    """Something asked so often that its plan would be kept; what decides how it is planned."""
    for number in range(8):
        connection.execute(text("SELECT name FROM zones WHERE id = :id"), {"id": number})
    return str(connection.execute(text("SELECT current_setting('enable_seqscan')")).scalar_one())


def left_in(connection: Connection) -> list[object]:
    """What a session has that it did not begin with."""
    return [row for left in LEFT for row in connection.execute(text(left)).scalars()]


@pytest.mark.parametrize("kind", ENGINES)
def test_sessions_are_left_as_they_were(database_url: str, kind: str) -> None:
    """No setting, temporary table, lock or cursor outlives a transaction; nor does a plan that is not kept."""
    engine = ENGINES[kind](database_url, pool_size=1, prepares=False)
    assert run_transaction(engine, work) == ("off" if kind == Plans.KEPT_BY_INDEX.value else "on")
    with read_only(engine) as connection:
        work(connection)
    with engine.connect() as connection:
        raw = connection.execution_options(isolation_level="AUTOCOMMIT")
        assert left_in(raw) == []
        assert raw.execute(text(PREPARED)).scalar_one() == 0
    engine.dispose()


def test_reading_leaves_nothing_either(database_url: str) -> None:
    """The connections that most calls read on hold no session for themselves."""
    engine = create_reading_engine(database_url, pool_size=1, prepares=False)
    with engine.connect() as connection:
        assert work(connection) == "on"
        assert left_in(connection) == []
        assert connection.execute(text(PREPARED)).scalar_one() == 0
    engine.dispose()


def test_plans_are_kept_where_sessions_are_ones_own(database_url: str) -> None:
    """Without a pooler repeated statements are planned once."""
    engine = create_engine(database_url, pool_size=1)
    with read_only(engine) as connection:
        work(connection)
        assert connection.execute(text(PREPARED)).scalar_one() > 0
    engine.dispose()


def test_who_falls_silent_is_put_out_by_an_option_of_the_connection(database_url: str) -> None:
    """The server watches over its clients, though no statement has asked for it."""
    engine = create_engine(database_url, pool_size=1)
    with engine.connect() as connection:
        shown = connection.execute(text("SELECT current_setting('idle_in_transaction_session_timeout')"))
        assert shown.scalar_one() == "1min"
    engine.dispose()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM sessions",
        "update users set state = 'x'",
        "INSERT INTO zones (name, network_type) VALUES ('x', 'Basic')",
        "WITH gone AS (DELETE FROM sessions RETURNING 1) SELECT * FROM gone",
        "SELECT id FROM users FOR UPDATE",
        "TRUNCATE sessions",
        "SET search_path TO x",
        "COMMIT",
    ],
)
def test_connections_for_reading_let_queries_through_alone(database_url: str, statement: str) -> None:
    """A statement that could change something, in rows or in the session, does not reach the database."""
    engine = create_reading_engine(database_url, pool_size=1)
    with engine.connect() as connection, pytest.raises(WriteWhereReading):
        connection.exec_driver_sql(statement)
    engine.dispose()
