"""One cache of compiled statements for all engines of a test process.

Each test has an engine of its own, and SQLAlchemy compiles a statement once per engine: a sixth of all time.
"""

from typing import Any

import sqlalchemy
from sqlalchemy import Engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.util import LRUCache

MOST_STATEMENTS = 3000


def share_compiled_statements() -> None:
    """Let engines that are made from now on find what other engines of this process compiled.

    The cache's keys contain the engine's dialect. Two dialects count as equal if they read JSON with the same
    function; all other options are the same for all engines on the server of a test run.
    """
    cache: LRUCache[Any, Any] = LRUCache(MOST_STATEMENTS)
    create_engine = sqlalchemy.create_engine

    def with_shared_cache(*arguments: Any, **options: Any) -> Engine:
        engine: Engine = create_engine(*arguments, **options)
        engine._compiled_cache = cache
        return engine

    sqlalchemy.create_engine = with_shared_cache
    PGDialect_psycopg.__eq__ = _is_alike  # type: ignore[method-assign, assignment]
    PGDialect_psycopg.__hash__ = _hash_of_class  # type: ignore[method-assign, assignment]


def _is_alike(one: PGDialect_psycopg, other: object) -> bool:
    return type(one) is type(other) and _json_reader(one) is _json_reader(other)


def _json_reader(dialect: object) -> object:
    return vars(dialect).get("_json_deserializer")


def _hash_of_class(dialect: PGDialect_psycopg) -> int:
    return hash(type(dialect))
