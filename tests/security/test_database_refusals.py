"""Calls that the database cannot serve for the moment are answered with 503 and a clear text."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from tests.support.api.account_calls import new_name, refusal
from tests.support.zones.world import World

RAISING = """
CREATE OR REPLACE FUNCTION fail_as_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the server failed' USING ERRCODE = TG_ARGV[0];
END $$
"""


@pytest.fixture
def server(world: World, postgres_url: str) -> Iterator[psycopg.Connection]:
    """A connection of its own to the server, for what an operator does there."""
    del world
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("sqlstate", "reason"),
    [
        ("53000", "it lacks a resource"),
        ("53100", "its disk is full"),
        ("53200", "it has no memory left"),
        ("53400", "a limit of its configuration is reached"),
        ("57000", "an operator intervened"),
        ("57014", "cancelled or took longer than its time limit"),
        ("58000", "its operating system reported an error"),
        ("58030", "its operating system reported an error"),
        ("58P01", "its operating system reported an error"),
    ],
)
def test_a_write_that_the_server_cannot_do(world: World, sqlstate: str, reason: str) -> None:
    """A call whose write fails with a SQLSTATE of the classes 53, 57 and 58 is answered 503, and changes nothing.

    A trigger raises the error: the server reports it exactly as if its disk were full.
    """
    name = new_name("zone")
    sent = {"name": name, "dns1": "10.0.0.1", "internaldns1": "10.0.0.1", "networktype": "Advanced"}
    with world.engine.begin() as connection:
        connection.execute(text(RAISING))
        made = f"CREATE TRIGGER failing BEFORE INSERT ON zones EXECUTE FUNCTION fail_as_told('{sqlstate}')"
        connection.execute(text(made))
    try:
        with capture_logs() as log:
            answer = world.client().get("createZone", **sent)
    finally:
        with world.engine.begin() as connection:
            connection.execute(text("DROP TRIGGER failing ON zones"))
    code, shown = refusal(answer)
    assert (answer.status, code, reason in shown, "try again later" in shown) == (503, 503, True, True)
    assert not [entry for entry in log if "exc_info" in entry]
    assert not [row for row in world.rows("listZones") if row["name"] == name]
    assert world.client().get("createZone", **sent).status == 200


def test_a_statement_that_an_operator_cancels(world: World, server: psycopg.Connection) -> None:
    """A list whose statement is cancelled while it waits for a lock is answered 503."""
    database = world.engine.url.database
    answers: list[int] = []
    with world.engine.begin() as holder:
        holder.execute(text("LOCK TABLE disk_offerings IN ACCESS EXCLUSIVE MODE"))
        calling = threading.Thread(
            target=lambda: answers.append(world.client().get("listDiskOfferings").status), daemon=True
        )
        calling.start()
        waiting = (
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND wait_event_type = 'Lock' AND state = 'active'"
        )
        while calling.is_alive():
            server.execute(waiting, (database,))
            calling.join(0.05)
    assert answers == [503]


def test_statements_that_take_too_long(world: World, server: psycopg.Connection) -> None:
    """With a time limit for statements in the database, a call that passes it is answered 503 and says so."""
    database = world.engine.url.database
    server.execute(f"ALTER DATABASE \"{database}\" SET statement_timeout = '50ms'")
    try:
        world.engine.dispose()
        with psycopg.connect(
            world.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        ) as holder:
            holder.execute("SET statement_timeout = 0")
            holder.execute("LOCK TABLE disk_offerings IN ACCESS EXCLUSIVE MODE")
            code, shown = refusal(world.client().get("listDiskOfferings"))
    finally:
        server.execute(f'ALTER DATABASE "{database}" RESET statement_timeout')
        world.engine.dispose()
    assert (code, "time limit" in shown) == (503, True)
    assert world.client().get("listDiskOfferings").status == 200
