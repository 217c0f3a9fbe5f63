"""Promises of the embedded PostgreSQL."""

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy import text

from bulkdeploy.domain.errors import OutcomeUnknown
from bulkdeploy.embedded.postgres import UNSAFE_FOR_TESTS, PostgresServer
from bulkdeploy.store.database.commit_outcome import mark_transaction, was_committed
from bulkdeploy.store.database.engine import create_engine

pytestmark = pytest.mark.long


def server_on(folder: Path) -> PostgresServer:
    """A server whose data lies in ``folder``."""
    return PostgresServer(folder / "postgres", folder / "postgres.log", UNSAFE_FOR_TESTS, sync=False)


@pytest.fixture
def server(server_folder: Path) -> Iterator[PostgresServer]:
    """A running server."""
    server = server_on(server_folder)
    server.start()
    yield server
    server.stop()


def write_row(server: PostgresServer) -> None:
    """Commit one row."""
    with psycopg.connect(server.url()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def read_row(server: PostgresServer) -> object:
    """The row again."""
    with psycopg.connect(server.url()) as connection:
        return connection.execute("SELECT answer FROM kept").fetchone()


def test_data_survives_a_stop_and_a_start(server: PostgresServer) -> None:
    """What was committed is there after a clean restart."""
    write_row(server)
    server.stop()
    server.start()
    assert read_row(server) == (42,)


def test_what_a_server_says_of_a_commit_is_believed_over_a_shutdown_and_not_over_a_crash(
    server: PostgresServer,
) -> None:
    """A server that recovered from the crash of one of its processes may have given the number to another."""
    engine = create_engine(server.url())
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE kept AS SELECT 42 AS answer"))
        done = mark_transaction(connection)
    assert done is not None
    server.stop()
    server.start()
    assert was_committed(engine, done)
    engine.dispose()  # a connection of the life that ends may answer until its own process is reached
    with psycopg.connect(server.url()) as witness, psycopg.connect(server.url()) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            witness.execute("SELECT pg_sleep(60)")  # until the server has noticed, and ends all others
    engine.dispose()  # or one of its sessions, not ended yet, still answers for the life before
    with pytest.raises(OutcomeUnknown):
        was_committed(engine, done)
    engine.dispose()


def test_server_killed_with_9_starts_again_with_its_data(server_folder: Path) -> None:
    """After kill -9 of a server with the product's settings, the next start recovers what was committed."""
    server = PostgresServer(server_folder / "postgres", server_folder / "postgres.log")
    server.start()
    try:
        write_row(server)
        assert server.process is not None
        server.process.kill()
        server.process.wait()
        server.start()
        assert read_row(server) == (42,)
    finally:
        server.stop()


def test_leftover_server_of_a_killed_starter_is_replaced(server: PostgresServer, server_folder: Path) -> None:
    """A second starter on the same data stops the server it finds and starts its own."""
    write_row(server)
    assert server.process is not None
    second = server_on(server_folder)
    try:
        second.start()
        assert server.process.wait() == 0
        assert read_row(second) == (42,)
    finally:
        second.stop()


def test_lock_file_of_a_stranger_is_no_obstacle(server: PostgresServer) -> None:
    """A lock file whose process id belongs to some other program by now does not stop the start."""
    server.stop()
    (server.data_dir / "postmaster.pid").write_text(
        f"{os.getpid()}\n{server.data_dir}\n0\n5432\n\n\n  0 0\nready\n"
    )
    server.start()
    assert server.is_ready()


def test_half_made_data_is_made_anew(server_folder: Path) -> None:
    """Data files whose making was interrupted are never used."""
    half_made = server_folder / "postgres.new"
    half_made.mkdir()
    (half_made / "PG_VERSION").write_text("18\n")
    server = server_on(server_folder)
    try:
        server.start()
        assert server.is_ready()
    finally:
        server.stop()


@pytest.mark.parametrize("folder", ["plain", "x" * 120, "with space and ü"])
def test_data_directory_may_have_any_name(server_folder: Path, folder: str) -> None:
    """Long paths, spaces and other letters work; parents that others may not enter too."""
    place = server_folder / "closed" / folder
    place.mkdir(parents=True)
    (server_folder / "closed").chmod(stat.S_IRWXU)
    server = server_on(place)
    try:
        server.start()
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        server.stop()


def test_only_its_owner_can_reach_it(server: PostgresServer) -> None:
    """There is no TCP port, and the directory with the socket is closed to others."""
    with psycopg.connect(server.url()) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    assert stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700


def test_stop_leaves_no_process(server: PostgresServer) -> None:
    """After a stop neither the server nor one of its helpers runs."""
    assert server.process is not None
    family = [
        server.process.pid,
        *(child.pid for child in psutil.Process(server.process.pid).children(recursive=True)),
    ]
    assert len(family) > 1
    server.stop()
    assert [pid for pid in family if psutil.pid_exists(pid)] == []


def test_server_that_cannot_start_says_why(server_folder: Path) -> None:
    """A refused setting ends the start at once with the server's own words."""
    from bulkdeploy.embedded.processes import ServerFailed

    server = PostgresServer(server_folder / "postgres", server_folder / "log", {"no_such_setting": "1"}, sync=False)
    with pytest.raises(ServerFailed, match="no_such_setting"):
        server.start()


def test_paused_starter_does_not_lose_the_server(server: PostgresServer) -> None:
    """A server that ended itself cleanly can be started by the same object."""
    assert server.process is not None
    server.process.send_signal(signal.SIGINT)
    server.process.wait()
    assert not server.is_ready()
    server.start()
    assert server.is_ready()
