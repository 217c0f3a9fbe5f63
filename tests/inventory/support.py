"""What inventory tests share: the whole database as a value."""

from typing import Any

from sqlalchemy import Engine, text

from bulkdeploy.store.tables.catalog import metadata


def all_rows(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in an order of its own."""
    with engine.connect() as connection:
        return {
            name: sorted(
                connection.execute(text(f'SELECT t::text FROM "{name}" t')).scalars(),
            )
            for name in metadata.tables
        }
