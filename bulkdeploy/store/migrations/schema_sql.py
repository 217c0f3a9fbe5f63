"""The tables as SQL text: what the first migration contains."""

from itertools import groupby
from typing import Any

from sqlalchemy import create_mock_engine

from bulkdeploy.store.tables.catalog import metadata

HEADER = """\
-- The first schema. Written by `make generate` from bulkdeploy/store/tables until the first release;
-- from then on changes are further migrations.
"""


def schema_sql() -> str:
    """Every CREATE and COMMENT statement, in an order that runs."""
    statements: list[str] = []

    def collect(statement: Any, *_: object, **__: object) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine("postgresql+psycopg://", collect)
    metadata.create_all(engine, checkfirst=False)
    ordered: list[str] = []
    for are_indexes, run in groupby(map(_tidy, statements), key=lambda text: "INDEX" in text.partition(" ON ")[0]):
        texts = list(run)
        ordered += sorted(texts) if are_indexes else texts  # SQLAlchemy keeps a table's indexes in a set
    return HEADER + "\n" + "\n\n".join(ordered) + "\n"


def _tidy(statement: str) -> str:
    return "\n".join(line.replace("\t", "    ").rstrip() for line in statement.strip().splitlines()) + ";"
