"""Queries that run thousands of times per second: compiled once, and executed on libpq, below psycopg.

For such a statement, most of the CPU time of this process is spent in SQLAlchemy and psycopg: for the lookup of the
statement, its parameters, a cursor and the description of each column. docs/explanation/performance.md has the
measurement.
"""

import re
from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from itertools import count
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.sql import Literal
from sqlalchemy import Connection, Select, false, select
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from bulkdeploy.store.database.copying import psycopg_connection

PREPARED = "bulkdeploy_prepared"
OUTLIVED = (b"0A000", b"26000")
"""SQLSTATEs of a prepared statement whose columns a migration changed since, and of one that the session lost."""

_numbers = count()
_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


class CompiledQuery:
    """A query that is compiled once and executed with little overhead, as a prepared statement if possible.

    All parameters of the query are texts.
    """

    def __init__(self, query: Select[Any]) -> None:
        self._query = query

    @cached_property
    def _compiled(self) -> tuple[bytes, tuple[str, ...]]:
        """The SQL text with all constants inserted, and the names of the query's own parameters in order."""
        compiled = self._query.compile(
            dialect=PGDialect_psycopg(),  # type: ignore[no-untyped-call]
            compile_kwargs={"render_postcompile": True},
        )
        own = tuple(bind.key for bind in compiled.binds.values() if not bind.unique)

        def value(found: re.Match[str]) -> str:
            name = found[1]
            if name is None:
                return "%"
            if name in own:
                return f"${own.index(name) + 1}"
            constant = compiled.params[name]
            return Literal(constant.value if isinstance(constant, Enum) else constant).as_string()

        return _PLACEHOLDER.sub(value, str(compiled)).encode(), own

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        return tuple(str(column.name) for column in self._query.selected_columns)

    def rows(self, connection: Connection, **parameters: str) -> list[dict[str, Any]]:
        """Execute the query with these values of its parameters, and return the rows as dictionaries."""
        return [dict(zip(self._columns, row, strict=True)) for row in self.tuples(connection, **parameters)]

    def tuples(self, connection: Connection, **parameters: str) -> list[tuple[Any, ...]]:
        """Execute the query and return its rows as plain tuples.

        Raises:
            psycopg.Error: the database refused the query, or cannot be reached.
        """
        below = psycopg_connection(connection)
        if not below.autocommit:  # psycopg has not begun the transaction yet
            return [tuple(row) for row in connection.execute(self._query, parameters)]
        sql, names = self._compiled
        values = [parameters[name].encode() for name in names]
        if below.prepare_threshold is None:
            result = below.pgconn.exec_params(sql, values)
        else:
            result = self._run_prepared(connection, below.pgconn, sql, values)
            if _is_prepared_anew(result):
                del connection.info[PREPARED][self]
                result = self._run_prepared(connection, below.pgconn, sql, values)
        return _rows(_require(result, below.pgconn, connection), below)

    def _run_prepared(
        self, connection: Connection, session: PGconn, sql: bytes, values: Sequence[bytes]
    ) -> PGresult:
        prepared: dict[CompiledQuery, bytes] = connection.info.setdefault(PREPARED, {})
        if self not in prepared:
            name = b"bulkdeploy_%d" % next(_numbers)
            _require(session.prepare(name, sql), session, connection)
            prepared[self] = name
        return session.exec_prepared(prepared[self], values)


class TwoQueries:
    """Two queries that are combined into one statement, with one round trip and one snapshot for both.

    The first column of each query must not be NULL.
    """

    def __init__(self, first: Select[Any], second: Select[Any]) -> None:
        left, right = first.subquery("first"), second.subquery("second")
        both = left.join(right, false(), full=True)
        self._both = CompiledQuery(select(*left.columns, *right.columns).select_from(both))
        self._names = tuple(left.columns.keys()), tuple(right.columns.keys())

    def rows(self, connection: Connection, **parameters: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Execute both queries, and return the rows of the first and of the second query as dictionaries."""
        first, second = self._names
        of_first, of_second = [], []
        for row in self._both.tuples(connection, **parameters):
            if row[0] is not None:
                of_first.append(dict(zip(first, row[: len(first)], strict=True)))
            else:
                of_second.append(dict(zip(second, row[len(first) :], strict=True)))
        return of_first, of_second


def _is_prepared_anew(result: PGresult) -> bool:
    """Return whether the statement must be prepared again, because a migration changed the schema."""
    return result.error_field(DiagnosticField.SQLSTATE) in OUTLIVED


def _rows(result: PGresult, below: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    reader = Transformer(below)
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)


def _require(result: PGresult, session: PGconn, connection: Connection) -> PGresult:
    """Return the result if the statement succeeded; otherwise raise the matching psycopg error.

    A broken connection is also invalidated.
    """
    # SQLAlchemy does not know that the session is broken, and would use it again
    if session.status == ConnStatus.BAD:
        connection.invalidate()
        raise psycopg.OperationalError(result.get_error_message())
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise error_from_result(result)
    return result
