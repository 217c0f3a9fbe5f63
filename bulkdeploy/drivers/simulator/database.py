"""The database that contains the state of the simulated hypervisors: its URL and its creation.

It is separate from the service's own database, so that the real state of guests can be compared with the rows of
the service.
"""

import hashlib
from contextlib import suppress
from importlib import resources
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg import Connection, sql

SUFFIX = "_simulator"
LONGEST_NAME = 63
"""The largest length of a PostgreSQL identifier, in bytes."""

TABLES_FILE = "tables.sql"
CODE_FILES = (
    "chance.sql",
    "faults.sql",
    "parts.sql",
    "calls.sql",
    "running.sql",
    "batches.sql",
)
"""The files of the simulator's functions, in the order in which they must be executed."""

FENCE_DAYS = 30
"""The number of days for which the fence of a deleted guest is stored."""

ADVISORY_LOCK = 0x51B0_1A70
"""The key of the lock that is held while the database or its schema is created.

No other program on the server may use the key.
"""


def derived_url(database_url: str) -> str:
    """Return the URL of the simulator's database: the service's URL with SUFFIX appended to the database name.

    Raises:
        ValueError: the URL names no database, or the new name is longer than PostgreSQL allows. PostgreSQL would
            cut the name, and two databases could become one.
    """
    name = database_name(database_url) + SUFFIX
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(f"Database name {name!r} is longer than {LONGEST_NAME} bytes; set the simulator's URL")
    return _with_database(database_url, urlsplit(database_url).path.removeprefix("/") + SUFFIX)


def database_name(url: str) -> str:
    """Return the name of the database in a ``postgresql://`` URL.

    Raises:
        ValueError: the URL names no database.
    """
    name = unquote(urlsplit(url).path.removeprefix("/"))
    if not name:
        raise ValueError("The URL of the simulator's database names no database: postgresql://HOST/NAME is needed")
    return name


def connect(url: str, *, autocommit: bool = True) -> Connection:
    """Connect to a database. SQLAlchemy's ``postgresql+psycopg://`` URLs are also accepted."""
    return psycopg.connect(conninfo(url), autocommit=autocommit, application_name="bulkdeploy-simulator")


def conninfo(url: str) -> str:
    """Return a database URL in the format of libpq, without SQLAlchemy's driver name."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme.partition('+')[0]}{separator}{rest}"


def ensure_database(url: str) -> None:
    """Create the database, its tables and its functions if they are missing.

    Several processes may do so at the same time. Existing state is kept, except fences of guests that were deleted
    more than FENCE_DAYS days ago. Functions of another release are replaced; calls that run at that moment fail.

    Raises:
        psycopg.Error: the server does not answer, or does not allow the creation of the database.
        ValueError: the URL names no database.
    """
    _create_database(url)
    with connect(url, autocommit=False) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [ADVISORY_LOCK])
        tables, code = _script(TABLES_FILE), "".join(_script(name) for name in CODE_FILES)
        digest = hashlib.sha256((tables + code).encode()).hexdigest()
        if _installed_digest(connection) == digest:
            _forget_old_fences(connection)
            return
        connection.execute("DROP SCHEMA IF EXISTS simulator_code CASCADE")
        connection.execute(tables)
        connection.execute(code)
        connection.execute("UPDATE simulator.settings SET code_digest = %s", [digest])


def drop_database(url: str) -> None:
    """Delete the database with all simulated hosts and guests. Open connections are closed."""
    with connect(_with_database(url, "postgres")) as connection:
        name = sql.Identifier(database_name(url))
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


def clear_state(connection: Connection) -> None:
    """Delete all hosts, guests, volumes, fault rules and latencies, as in a new database."""
    connection.execute(
        "TRUNCATE simulator.hosts, simulator.guests, simulator.stray_guests, simulator.volumes,"
        " simulator.broken_units, simulator.files, simulator.fault_rules, simulator.latencies RESTART IDENTITY"
    )
    connection.execute("UPDATE simulator.settings SET latency_scale = 1")


def _create_database(url: str) -> None:
    name = database_name(url)
    with suppress(psycopg.OperationalError), connect(url):
        return  # the database exists; the account may lack access to "postgres"
    with connect(_with_database(url, "postgres")) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
        if connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
            # template0 takes no connections; a template that is in use cannot be copied.
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'")
            connection.execute(statement.format(sql.Identifier(name)))


def _forget_old_fences(connection: Connection) -> None:
    """Delete the rows of guests that were deleted more than FENCE_DAYS days ago.

    No call is delayed for so long that their fences still matter.
    """
    connection.execute(
        "DELETE FROM simulator.guests WHERE power = 'Absent' AND changed < now() - %s * interval '1 day'",
        [FENCE_DAYS],
    )


def _installed_digest(connection: Connection) -> str | None:
    if connection.execute("SELECT to_regclass('simulator.settings')").fetchone() == (None,):
        return None
    row = connection.execute("SELECT code_digest FROM simulator.settings").fetchone()
    return None if row is None else str(row[0])


def _script(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _with_database(url: str, quoted_name: str) -> str:
    parts = urlsplit(url)  # put together by hand: urlunsplit drops the // of postgresql:///name
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}/{quoted_name}{query}"
