"""What the service leaves in a session of the database: nothing, for behind a pooler it is somebody else's next."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest
from sqlalchemy import (
    Connection,
    Engine,
    Integer,
    Text,
    Uuid,
    bindparam,
    cast,
    column,
    func,
    literal,
    null,
    select,
    table,
    text,
)

from bulkdeploy.store.database.compiled_query import CompiledQuery, TwoQueries
from bulkdeploy.store.database.copying import psycopg_connection
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


@pytest.mark.parametrize("change", ["ALTER TABLE zones ALTER COLUMN name TYPE varchar", "DEALLOCATE ALL"])
def test_compiled_queries_outlive_a_migration_and_a_pooler(database_url: str, change: str) -> None:
    """A session whose statements are no good any more prepares them anew, and its callers see nothing of it."""
    query = CompiledQuery(select(column("name", Text)).select_from(table("zones")))
    writing, reading = create_engine(database_url, pool_size=1), create_reading_engine(database_url, pool_size=1)
    try:
        with reading.connect() as connection:
            assert query.tuples(connection) == []
            if change.startswith("ALTER"):
                with writing.begin() as writer:
                    writer.execute(text(change))
            else:
                psycopg_connection(connection).pgconn.exec_(change.encode())
            for _ in range(2):
                assert query.tuples(connection) == []
    finally:
        writing.dispose()
        reading.dispose()


@pytest.mark.parametrize("prepares", [True, False])
def test_compiled_queries_read_what_sqlalchemy_reads(database_url: str, prepares: bool) -> None:
    """Past SQLAlchemy the rows are the same to the type, plans kept or not, however often it is run."""
    some = select(
        bindparam("text", "", Text).label("given"),
        literal("100 % of 'it'").label("quoted"),
        cast(bindparam("text", "", Text) + literal("-0000-4000-8000-000000000000"), Uuid).label("uuid"),
        func.jsonb_build_array(1, "two", null()).label("json"),
        literal(datetime(2026, 1, 2, tzinfo=UTC)).label("moment"),
        null().label("nothing"),
    )
    query, given = CompiledQuery(some), "0123abcd"
    engine = create_reading_engine(database_url, pool_size=1, prepares=prepares)
    try:
        with engine.connect() as connection:
            expected = [dict(connection.execute(some, {"text": given}).mappings().one())]
            for _ in range(3):
                assert query.rows(connection, text=given) == expected
                assert query.rows(connection, text="4567abcd") != expected
            with pytest.raises(psycopg.errors.InvalidTextRepresentation):
                query.rows(connection, text="%s")
            assert query.rows(connection, text=given) == expected
            kept = connection.execute(text(PREPARED)).scalar_one()
            assert bool(kept) is prepares
    finally:
        engine.dispose()


def test_two_queries_are_one_statement(engine: Engine) -> None:
    """Each has its own rows, many or none."""
    numbers = func.generate_series(1, cast(bindparam("most", "0", Text), Integer)).column_valued("n")
    words = func.string_to_table(bindparam("words", "", Text), ",").column_valued("w")
    both = TwoQueries(select(numbers.label("number")), select(words.label("word"), literal(7).label("number")))
    with engine.connect() as connection:
        reading = connection.execution_options(isolation_level="AUTOCOMMIT")
        for most, given in ((0, ""), (2, ""), (0, "a,b"), (3, "a")):
            numbered, worded = both.rows(reading, most=str(most), words=given)
            assert [row["number"] for row in numbered] == list(range(1, most + 1))
            assert [(row["word"], row["number"]) for row in worded] == [
                (word, 7) for word in given.split(",") if word
            ]
