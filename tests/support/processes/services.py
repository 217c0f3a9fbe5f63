"""The servers that tests run against: one PostgreSQL and one Valkey for a whole test run."""

import atexit
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from sqlalchemy.engine import make_url

from bulkdeploy.embedded.postgres import UNSAFE_FOR_TESTS, PostgresServer
from bulkdeploy.embedded.valkey import ValkeyServer

REDIS_DATABASES = 4096
_numbers = itertools.count()

MEMORY = Path("/dev/shm")  # noqa: S108 - a place, not a file; mkdtemp makes the name
PREFIX = "bulkdeploy-tests-"
ENOUGH_BYTES = 4 * 1024**3


class Services:
    """Both servers on a throwaway directory."""

    def __init__(self) -> None:
        folder = _fast_folder()
        _remove_what_killed_runs_left(folder)
        self.directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=folder))
        settings = {**UNSAFE_FOR_TESTS, "max_connections": "300", "max_wal_size": "256MB"}
        self.postgres = PostgresServer(
            self.directory / "postgres", self.directory / "postgres.log", settings, sync=False
        )
        self.valkey = ValkeyServer(self.directory / "valkey.log", databases=REDIS_DATABASES)

    def start(self) -> None:
        """Start both, at the same time."""
        self.postgres.launch()
        self.valkey.start()
        self.postgres.wait_until_ready()

    def stop(self) -> None:
        """Stop both and remove their data."""
        self.valkey.stop()
        self.postgres.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def server_directory() -> Iterator[Path]:
    """A temporary directory that is not one of pytest's."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fast_folder() -> Path:
    """Memory where there is plenty (a clone is then made in 10 ms instead of 400), else the default."""
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:
        return MEMORY
    return Path(tempfile.gettempdir())


def _remove_what_killed_runs_left(folder: Path) -> None:
    for path in folder.glob(f"{PREFIX}*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


def unique_name(prefix: str) -> str:
    """A database name that no other process or call of this run uses."""
    return f"{prefix}_{os.getpid()}_{next(_numbers)}"


def with_database(url: str, database: str) -> str:
    """``url`` pointing at another database of the same server."""
    return make_url(url).set(database=database).render_as_string(hide_password=False)


def without_time_limits(url: str) -> str:
    """Return ``url`` for sessions that PostgreSQL does not end while they idle in a transaction.

    A test that holds locks until others wait for them takes as long as the machine needs.
    """
    options = quote("-c idle_in_transaction_session_timeout=0")
    return f"{url}{'&' if '?' in url else '?'}options={options}"


def made_once(admin_url: str, name: str, make: Callable[[str], None]) -> str:
    """The name of a database that is made by the first process of the run that needs it.

    ``make`` gets the name that it has until it is complete; nothing may be connected to it then.
    """
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [name])
        if connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
            making = unique_name("making")
            make(making)
            connection.execute(f'ALTER DATABASE "{making}" RENAME TO "{name}"')
    return name


def copy_database(admin_url: str, template: str, name: str) -> None:
    """Make a copy of a database that nobody is connected to."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')


@contextmanager
def database_clone(admin_url: str, template: str) -> Iterator[str]:
    """The URL of a fresh copy of ``template``, dropped afterwards whoever is still connected."""
    name = unique_name("test")
    connection = _administration(admin_url)
    connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
    try:
        yield with_database(admin_url, name)
    finally:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@cache
def _administration(admin_url: str) -> psycopg.Connection:
    """One session for all clones of this process: a new one costs PostgreSQL as much as a simple test."""
    connection = psycopg.connect(admin_url, autocommit=True)
    atexit.register(connection.close)
    return connection
