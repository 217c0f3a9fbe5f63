"""Arrays of ids and texts as PostgreSQL reads them fastest."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CollectionAggregate,
    ColumnElement,
    Text,
    any_,
    bindparam,
    cast,
    func,
)


def int_array(numbers: Iterable[int]) -> str:
    """Whole numbers as an array literal, for ``CAST(:ids AS bigint[])`` and for ``any_of``.

    psycopg converts a list element by element; for the lists of a worker's batch that is a sixth of its CPU,
    and this is a fiftieth.
    """
    return "{" + ",".join(map(str, numbers)) + "}"


def any_of(name: str) -> CollectionAggregate[Any]:
    """Return the expression that an id column matches any element of the parameter ``name``, an ``int_array``."""
    return any_(cast(bindparam(name, type_=Text), ARRAY(BigInteger)))


def is_live(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that rows found by id are not removed; ``column`` is their ``removed``.

    The planner does not know it for ``removed IS NULL``, the condition of partial indexes. Until a table's
    statistics are taken it expects next to nothing of such an index, and a plan that is kept reads the whole of
    it where a few ids would do. The index of the ids must have the removed rows in it, too.
    """
    return func.num_nulls(column) == 1


RECORD_SEPARATOR = "\x1e"
"""Between texts that travel as one, for ``string_to_array(:texts, chr(30))``; JSON texts cannot hold it (RFC 7464).

In an array of texts psycopg escapes each quote in each text on its own, which for job results costs more than
all the rest of finishing jobs.
"""
