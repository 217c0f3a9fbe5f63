"""Queries that are asked thousands of times a second, put together once and run without SQLAlchemy's part in it.

That part (looking the statement up, its parameters, a description of each column) costs more than the rest of such
a statement in this process: docs/performance.md has the measurement.
"""

from enum import Enum
from functools import cached_property
from typing import Any

from psycopg.sql import Literal
from sqlalchemy import Connection, Select
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from bulkdeploy.store.database.copying import psycopg_connection


class CompiledQuery:
    """A query whose columns psycopg reads as they are; its parameters have defaults."""

    def __init__(self, query: Select[Any]) -> None:
        self._query = query

    @cached_property
    def _compiled(self) -> tuple[bytes, tuple[str, ...]]:
        """The SQL, with all values in it but those of the query's own parameters, and the columns' names."""
        compiled = self._query.compile(
            dialect=PGDialect_psycopg(),  # type: ignore[no-untyped-call]
            compile_kwargs={"render_postcompile": True},
        )
        text = str(compiled)
        own = {bind.key for bind in compiled.binds.values() if not bind.unique}
        for name, value in compiled.params.items():
            if name not in own:
                plain = value.value if isinstance(value, Enum) else value
                text = text.replace(f"%({name})s", Literal(plain).as_string().replace("%", "%%"))
        return text.encode(), tuple(str(column.name) for column in self._query.selected_columns)

    def rows(self, connection: Connection, **parameters: str) -> list[dict[str, Any]]:
        """The rows by column name, for these values of the query's parameters."""
        names = self._compiled[1]
        return [dict(zip(names, row, strict=True)) for row in self.tuples(connection, **parameters)]

    def tuples(self, connection: Connection, **parameters: str) -> list[tuple[Any, ...]]:
        """The rows as they are."""
        sql, _ = self._compiled
        below = psycopg_connection(connection)
        try:
            with below.cursor() as cursor:
                cursor.execute(sql, parameters)
                return cursor.fetchall()
        finally:
            if below.closed:  # SQLAlchemy did not see it break, and would try to use it again
                connection.invalidate()
