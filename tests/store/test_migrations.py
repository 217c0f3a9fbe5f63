"""Promises of the migrations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text

from bulkdeploy.store import migrations
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.store.migrations import upgrade as upgrading
from bulkdeploy.store.migrations.revisions import SchemaNotReleased, known_revisions, refuse_other_releases
from bulkdeploy.store.migrations.upgrade import Half, current_revision, newest_revision, upgrade
from bulkdeploy.store.tables.catalog import metadata
from bulkdeploy.store.tables.revisions import schema_revisions
from tests.support.processes.services import unique_name, with_database

CATALOG = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, identity_generation,
               numeric_precision, numeric_scale, col_description((table_name::regclass), ordinal_position)
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
        ORDER BY table_name, column_name""",
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
        assert found[part] == wanted[part], "write a migration (store/migrations/versions)"


def test_upgrade_ends_at_the_newest_revision_and_repeats_without_effect(engine: Engine) -> None:
    """A migrated database stays as it is."""
    before = catalog(engine)
    upgrade(engine)
    with engine.connect() as connection:
        assert current_revision(connection) == newest_revision()
    assert catalog(engine) == before


def test_an_upgrade_lets_calls_go_on_while_a_dump_reads(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives everything back and begins anew, and says what is in its way where that does not end."""
    monkeypatch.setattr(upgrading, "LOCK_WAIT_S", 1)
    monkeypatch.setattr(upgrading, "MOST_TRIES", 2)
    with empty_database(postgres_url) as engine:
        upgrade(engine)
        change = text("ALTER TABLE virtual_machines ADD COLUMN later integer")
        monkeypatch.setattr("alembic.command.upgrade", lambda at, _: at.attributes["connection"].execute(change))
        monkeypatch.setattr(upgrading, "_target", lambda *_: "later")
        with engine.connect() as dump:
            dump.execute(text("SELECT count(*) FROM virtual_machines"))
            with pytest.raises(upgrading.TablesInUse, match="run it again once that has ended"):
                upgrade(engine)
        upgrade(engine)
        with engine.connect() as connection:
            assert "later" in {column["name"] for column in inspect(connection).get_columns("virtual_machines")}


def test_revisions_are_known_without_alembic() -> None:
    """What programs take for the line of revisions, from the files' names, is the line that Alembic walks."""
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    walked = [script.revision for script in scripts.walk_revisions()]
    assert list(reversed(walked)) == list(known_revisions())


def test_an_empty_database_gets_everything_and_it_is_noted(postgres_url: str) -> None:
    """It has no older programs to care for, whichever half is asked for."""
    with empty_database(postgres_url) as engine:
        upgrade(engine, Half.PRE)
        with engine.connect() as connection:
            assert current_revision(connection) == newest_revision()
            noted = connection.execute(text("SELECT revision FROM schema_revisions ORDER BY 1")).scalars()
            assert list(noted) == list(known_revisions())


EARLIER_ROWS = """
    SET session_replication_role = replica;  -- parents of these rows do not matter here
    INSERT INTO hosts
            (id, name, ip_address, zone_id, pod_id, cluster_id, hypervisor, cpu_cores, cpu_mhz, memory_mib)
        VALUES (1, 'one', '', 1, 1, 7, 'KVM', 1, 1, 1), (2, 'two', '', 1, 1, 8, 'KVM', 1, 1, 1);
    INSERT INTO virtual_machines
            (id, uuid, account_id, name, display_name, instance_name, user_id, zone_id, state, hypervisor,
            service_offering_id, template_id, cpu_number, cpu_mhz, memory_mib, deployment_id)
        SELECT n, gen_random_uuid(), 5, 'vm-' || n, '', 'i-' || n, 1, 1, 'Running', 'KVM', 1, 1, 1, 1, 1, 1
        FROM generate_series(1, 3) n;
    INSERT INTO host_claims (consumer, host_id, consumer_kind, cpu_mhz, memory_mib)
        SELECT uuid, CASE WHEN id = 3 THEN 2 ELSE 1 END, 0, 1, 1 FROM virtual_machines;
    INSERT INTO instance_groups (id, account_id, name) VALUES (1, 5, 'web'), (2, 5, 'web'), (3, 6, 'web');
    SET session_replication_role = DEFAULT;
"""


EARLIER_ROLES = """
    INSERT INTO roles (name, role_type) VALUES
        ('User', 'User'), ('clone of User', 'User'), ('all of it', 'Admin'), ('one rule', 'User'),
        ('nothing more', 'DomainAdmin');
    INSERT INTO role_rules (role_id, rule, permission, sort_order) SELECT id, 'listZones', 'allow', 0
        FROM roles WHERE name IN ('one rule', 'nothing more');
"""


@contextmanager
def database_of_first_release(postgres_url: str, rows: str, revision: str = "0001_pre_initial") -> Iterator[Engine]:
    """An engine on a database with the tables and these rows of release 0.1.0, and the name of this revision."""
    first = Path(migrations.__file__).parent / "versions" / "0001_pre_initial.sql"
    with empty_database(postgres_url) as engine:
        with psycopg.connect(engine.url.set(drivername="postgresql").render_as_string(False)) as connection:
            connection.execute(first.read_bytes())
            connection.execute(rows.encode())
            connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)")
            connection.execute("INSERT INTO alembic_version VALUES (%s)", (revision,))
        yield engine


def test_what_earlier_states_wrote_is_counted_and_kept(postgres_url: str) -> None:
    """Claims get their VM's account and are counted per cluster; names that would clash are told apart."""
    with database_of_first_release(postgres_url, EARLIER_ROWS) as engine:
        upgrade(engine)
        with engine.connect() as connection:
            counted = connection.execute(
                text("SELECT account_id, cluster_id, vms FROM account_clusters ORDER BY 2")
            )
            assert [tuple(row) for row in counted] == [(5, 7, 2), (5, 8, 1)]
            names = connection.execute(text("SELECT name FROM instance_groups ORDER BY id")).scalars()
            assert list(names) == ["web", "web-2", "web"]


def test_a_database_between_two_releases_is_left_alone(postgres_url: str) -> None:
    """A revision that was joined into a later one is neither upgraded nor worked with."""
    with database_of_first_release(postgres_url, "", "0044_pre_operation_pace") as engine:
        schema_revisions.create(engine)
        before = catalog(engine)
        for half in Half:
            with pytest.raises(SchemaNotReleased, match="upgrade it with the build that made it"):
                upgrade(engine, half)
        assert catalog(engine) == before
        refuse_other_releases(engine)
        engine.dispose()
        with pytest.raises(SchemaNotReleased):
            engine.connect()


def test_roles_without_rules_keep_what_their_type_allowed(postgres_url: str) -> None:
    """A role without rules gets those of its type; a role with rules allows these alone from now on."""
    with database_of_first_release(postgres_url, EARLIER_ROLES) as engine:
        upgrade(engine)
        with engine.connect() as connection:
            query = "SELECT r.name, x.rule FROM roles r JOIN role_rules x ON x.role_id = r.id"
            found: dict[str, set[str]] = {}
            for name, rule in connection.execute(text(query)):
                found.setdefault(name, set()).add(rule)
    assert found["all of it"] == {"*"}
    assert found["one rule"] == found["nothing more"] == {"listZones"}
    assert found["User"] == found["clone of User"]
    assert {"deployVirtualMachine", "listApis", "listVirtualMachines"} <= found["clone of User"]
    assert not {"listHosts", "createAccount", "updateZone"} & found["clone of User"]
