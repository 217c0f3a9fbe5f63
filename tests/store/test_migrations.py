"""Promises of the migrations."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import Engine, text

from bulkdeploy.store.engine import create_engine
from bulkdeploy.store.migrations.upgrade import Half, SchemaTooNew, current_revision, newest_revision, upgrade
from bulkdeploy.store.tables.catalog import metadata
from tests.support.services import unique_name, with_database

CATALOG = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, identity_generation,
               numeric_precision, numeric_scale, col_description((table_name::regclass), ordinal_position)
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
        ORDER BY table_name, ordinal_position""",
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1, 2""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'alembic_version'
        ORDER BY 1, 2""",
    "options": """
        SELECT relname, relkind, reloptions FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S', 'v')
          AND relname NOT LIKE 'alembic_version%' ORDER BY 1""",
}


@contextmanager
def empty_database(postgres_url: str) -> Iterator[Engine]:
    """An engine on a database without tables."""
    name = unique_name("empty")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        engine = create_engine(with_database(postgres_url, name))
        try:
            yield engine
        finally:
            engine.dispose()
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def catalog(engine: Engine) -> dict[str, list[tuple[object, ...]]]:
    """All that PostgreSQL knows of the schema."""
    with engine.connect() as connection:
        return {part: [tuple(row) for row in connection.execute(text(query))] for part, query in CATALOG.items()}


def test_migrating_an_empty_database_gives_the_declared_schema(postgres_url: str) -> None:
    """Tables, columns, indexes, constraints and options are exactly those of ``store.tables``."""
    with empty_database(postgres_url) as migrated, empty_database(postgres_url) as declared:
        upgrade(migrated)
        metadata.create_all(declared)
        found, wanted = catalog(migrated), catalog(declared)
    assert len(wanted["columns"]) > 300
    for part in CATALOG:
        assert found[part] == wanted[part], "run `make generate` (before the first release), or write a migration"


def test_upgrade_ends_at_the_newest_revision_and_repeats_without_effect(engine: Engine) -> None:
    """A migrated database stays as it is."""
    before = catalog(engine)
    upgrade(engine)
    with engine.connect() as connection:
        assert current_revision(connection) == newest_revision()
    assert catalog(engine) == before


def test_first_half_ends_at_a_pre_migration(postgres_url: str) -> None:
    """Before new code starts, only what old code can live with is run."""
    with empty_database(postgres_url) as engine:
        upgrade(engine, Half.PRE)
        with engine.connect() as connection:
            assert "_pre_" in str(current_revision(connection))


def test_database_of_a_later_release_is_refused(engine: Engine) -> None:
    """Code that does not know the database's revision does not touch it."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999_pre_future'"))
    with pytest.raises(SchemaTooNew, match="9999_pre_future"):
        upgrade(engine)
