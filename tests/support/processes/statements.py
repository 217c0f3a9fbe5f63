"""Counts the statements that reach PostgreSQL on connections of an engine, COPY included."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import psycopg
from sqlalchemy import Engine, event

SAVEPOINT = re.compile(r"(RELEASE |ROLLBACK TO )?SAVEPOINT", re.IGNORECASE)
PARAMETER = re.compile(r"%\(\w+\)s(?:::\w+(?:\[\])?)?")
PARAMETERS = re.compile(r"\([?, ]+\)(?:, \([?, ]+\))*")


class Statements:
    """The statements of an engine's connections by their texts, without how many values are listed in them.

    What is sent once for each of many rows counts once for each.

    Not counted is what surrounds the work: savepoints.
    """

    def __init__(self, engine: Engine) -> None:
        self.seen: Counter[str] = Counter()
        engine.dispose()
        event.listen(engine, "connect", self._watch)

    def clear(self) -> None:
        """Count anew."""
        self.seen.clear()

    def __len__(self) -> int:
        return self.seen.total()

    def more_than(self, few: Counter[str]) -> Counter[str]:
        """The statements that there were more often than in ``few``."""
        return self.seen - few

    def _watch(self, connection: psycopg.Connection[Any], _: object) -> None:
        seen = self.seen

        class Counting(psycopg.Cursor[Any]):
            def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
                _count(seen, query)
                return super().execute(query, *arguments, **options)

            def executemany(self, query: Any, params_seq: Iterable[Any], **options: Any) -> None:
                rows = list(params_seq)
                _count(seen, query, len(rows))
                super().executemany(query, rows, **options)

            def copy(self, statement: Any, *arguments: Any, **options: Any) -> Any:
                _count(seen, statement)
                return super().copy(statement, *arguments, **options)

        connection.cursor_factory = Counting


def _count(seen: Counter[str], query: Any, times: int = 1) -> None:
    text = query.decode() if isinstance(query, bytes) else str(query)
    if not SAVEPOINT.match(text):
        seen[PARAMETERS.sub("(...)", PARAMETER.sub("?", text))] += times
