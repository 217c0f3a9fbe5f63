"""The creation of the database on a server that this service manages."""

import contextlib

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url


def ensure_database(server_url: str, name: str) -> None:
    """Create the database ``name`` on the server behind ``server_url`` if it is missing."""
    conninfo = make_url(server_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone()
        if found is None:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'")
            with contextlib.suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(statement.format(sql.Identifier(name)))
