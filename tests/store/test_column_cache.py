"""Cached columns are always what a fresh reading would be."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from bulkdeploy.store.database.column_cache import CachedTable, ColumnCache, column_cache
from bulkdeploy.store.database.engine import TransactionConflict, run_transaction
from tests.support.runs.properties import examples

THINGS = CachedTable(
    "things", {"id": "id", "used": "used"}, gone="removed IS NOT NULL", scope="zone_id = %(scope)s"
)
ZONE = 7


@pytest.fixture
def things(engine: Engine) -> Iterator[Engine]:
    """A table of three things in the zone and one elsewhere."""
    with engine.begin() as connection:
        connection.execute(
            text("CREATE TABLE things (id bigint PRIMARY KEY, zone_id bigint, used bigint NOT NULL, removed date)")
        )
        connection.execute(text("INSERT INTO things VALUES (1, 7, 10), (2, 7, 20), (5, 7, 50), (3, 8, 30)"))
        number = connection.execute(text("SELECT pg_current_xact_id()::text::bigint")).scalar_one()
    wait_until_all_before_are_over(engine, number)
    yield engine
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE things"))


def wait_until_all_before_are_over(engine: Engine, number: int) -> None:
    """Wait for transactions of other tests: while an older one runs, what this one wrote counts as changed."""
    oldest = text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while connection.execute(oldest).scalar_one() <= number:
            time.sleep(0.01)


def change(engine: Engine, statement: str) -> None:
    """Change things in a transaction of their own."""
    with engine.begin() as connection:
        connection.execute(text(statement))


def read(kept: ColumnCache, connection: Connection) -> dict[int, int]:
    """What is used, by id."""
    return pairs(kept.read(connection, THINGS, ZONE))


def pairs(columns: Mapping[str, object]) -> dict[int, int]:
    """Two columns as a dictionary."""
    return dict(zip(columns["id"].tolist(), columns["used"].tolist(), strict=True))  # type: ignore[attr-defined]


def test_shows_what_was_changed_added_and_removed_since_the_last_reading(things: Engine) -> None:
    """Changed rows are replaced, new ones put in their place by id, removed ones left out."""
    kept = ColumnCache()
    with things.connect() as connection:
        assert read(kept, connection) == {1: 10, 2: 20, 5: 50}
    change(things, "UPDATE things SET used = 21 WHERE id = 2")
    change(things, "INSERT INTO things VALUES (4, 7, 40)")
    change(things, "UPDATE things SET removed = now() WHERE id = 5")
    with things.connect() as connection:
        assert list(read(kept, connection).items()) == [(1, 10), (2, 21), (4, 40)]


def test_sees_a_transaction_that_was_open_during_the_last_reading(things: Engine) -> None:
    """What was not committed when it was read is seen once it is."""
    kept = ColumnCache()
    with things.connect() as slow, things.connect() as reader:
        slow.execute(text("UPDATE things SET used = 11 WHERE id = 1"))
        change(things, "UPDATE things SET used = 22 WHERE id = 2")
        assert read(kept, reader) == {1: 10, 2: 22, 5: 50}
        slow.commit()
        assert read(kept, reader) == {1: 11, 2: 22, 5: 50}


def test_sees_what_subtransactions_wrote(things: Engine) -> None:
    """Of a transaction with savepoints, open during a reading, all that was not taken back is seen once it ends."""
    kept = ColumnCache()
    with things.connect() as slow, things.connect() as reader:
        slow.execute(text("UPDATE things SET used = 11 WHERE id = 1"))
        inner = slow.begin_nested()
        slow.execute(text("UPDATE things SET used = 51 WHERE id = 5"))
        inner.commit()
        undone = slow.begin_nested()
        slow.execute(text("UPDATE things SET used = 0 WHERE id = 2"))
        undone.rollback()
        assert read(kept, reader) == {1: 10, 2: 20, 5: 50}
        change(things, "UPDATE things SET used = 22 WHERE id = 2")
        assert read(kept, reader) == {1: 10, 2: 22, 5: 50}
        slow.commit()
        assert read(kept, reader) == {1: 11, 2: 22, 5: 51}


def test_reads_the_whole_when_transactions_cannot_be_compared_any_more(things: Engine) -> None:
    """After so many transactions that their 32 bits begin anew, what changed since would look old."""
    kept = ColumnCache()
    with things.connect() as reader:
        read(kept, reader)
        (key, reading), *_ = kept._readings.items()
        kept._readings[key] = replace(reading, since=reading.since - (1 << 31) - 1000)
        change(things, "UPDATE things SET used = 12 WHERE id = 1")
        assert read(kept, reader)[1] == 12


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("begin", ["SELECT 1", "SAVEPOINT inner_one"])
@pytest.mark.parametrize(
    ("change", "seen"), [("used = 99", {1: 99, 2: 20, 5: 50}), ("removed = now()", {2: 20, 5: 50})]
)
def test_does_not_keep_what_is_rolled_back(
    things: Engine, warm: bool, begin: str, change: str, seen: dict[int, int]
) -> None:
    """A transaction sees what it wrote; once it is rolled back nobody does."""
    kept = ColumnCache()
    if warm:
        with things.connect() as connection:
            read(kept, connection)
    with things.connect() as connection:
        connection.execute(text(begin))
        connection.execute(text(f"UPDATE things SET {change} WHERE id = 1"))
        assert read(kept, connection) == seen
        connection.rollback()
        assert read(kept, connection) == {1: 10, 2: 20, 5: 50}


def test_keeps_what_a_transaction_reads_that_wrote_elsewhere(things: Engine) -> None:
    """Who locked a row or wrote another table before reads the whole only once, as deploy calls do."""
    kept = ColumnCache()
    with things.connect() as writer:
        writer.execute(text("SELECT FROM things WHERE id = 3 FOR SHARE"))
        writer.execute(text("CREATE TABLE others (id bigint)"))
        first = kept.read(writer, THINGS, ZONE)
        assert kept.read(writer, THINGS, ZONE) is first
        writer.rollback()
    with things.connect() as connection:
        assert kept.read(connection, THINGS, ZONE) is first


def test_a_reading_is_not_changed_by_a_later_one(things: Engine) -> None:
    """Whoever holds a reading may go on with it."""
    kept = ColumnCache()
    with things.connect() as connection:
        first = kept.read(connection, THINGS, ZONE)
        change(things, "UPDATE things SET used = 12 WHERE id = 1")
        kept.read(connection, THINGS, ZONE)
    assert pairs(first) == {1: 10, 2: 20, 5: 50}


@pytest.mark.parametrize("rewrite", ["TRUNCATE things", "VACUUM FULL things"])
def test_reads_a_rewritten_table_anew(things: Engine, rewrite: str) -> None:
    """A table whose file was replaced is read as a whole."""
    kept = ColumnCache()
    with things.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        read(kept, connection)
        connection.execute(text(rewrite))
        assert read(kept, connection) == ({} if rewrite.startswith("TRUNCATE") else {1: 10, 2: 20, 5: 50})


def test_is_not_confused_by_frozen_rows(things: Engine) -> None:
    """Rows that vacuum froze have not changed."""
    kept = ColumnCache()
    with things.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        read(kept, connection)
        connection.execute(text("UPDATE things SET used = 13 WHERE id = 1"))
        connection.execute(text("VACUUM (FREEZE) things"))
        assert read(kept, connection) == {1: 13, 2: 20, 5: 50}


def test_a_conflict_lets_everything_be_read_anew(things: Engine) -> None:
    """Rows that were deleted are noticed at the latest after a transaction that lost against reality."""
    with things.connect() as connection:
        assert read(column_cache(connection), connection) == {1: 10, 2: 20, 5: 50}
    change(things, "DELETE FROM things WHERE id = 5")
    seen: list[dict[int, int]] = []

    def work(connection: Connection) -> None:
        seen.append(read(column_cache(connection), connection))
        if 5 in seen[-1]:
            raise TransactionConflict

    run_transaction(things, work)
    assert seen == [{1: 10, 2: 20, 5: 50}, {1: 10, 2: 20}]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["change", "add", "remove", "read", "read dirty"]),
        st.integers(1, 12),
        st.integers(0, 100),
        st.booleans(),
    ),
    max_size=25,
)


@examples(30, suppress=(HealthCheck.function_scoped_fixture,))
@given(steps=STEPS)
def test_is_what_a_fresh_reading_is_after_any_history(
    things: Engine, steps: list[tuple[str, int, int, bool]]
) -> None:
    """Whatever was written, committed or rolled back between readings, the cached columns are the table's."""
    kept = ColumnCache()
    statements = {
        "change": "UPDATE things SET used = {used} WHERE id = {id}",
        "add": "INSERT INTO things VALUES ({id}, 7, {used}) ON CONFLICT DO NOTHING",
        "remove": "UPDATE things SET removed = now() WHERE id = {id}",
    }
    with things.connect() as connection:
        for what, number, used, commits in steps:
            if what in statements:
                connection.execute(text(statements[what].format(id=number, used=used)))
                (connection.commit if commits else connection.rollback)()
            elif what == "read":
                assert read(kept, connection) == read(ColumnCache(), connection)
                connection.rollback()
            else:
                connection.execute(text(statements["change"].format(id=number, used=used)))
                assert read(kept, connection) == read(ColumnCache(), connection)
                (connection.commit if commits else connection.rollback)()
        assert read(kept, connection) == read(ColumnCache(), connection)
