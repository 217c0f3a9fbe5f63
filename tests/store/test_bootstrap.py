"""Promises of the first rows."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
from argon2 import PasswordHasher
from sqlalchemy import Engine, func, insert, select

from bulkdeploy.commands.registry import default_rights
from bulkdeploy.store.database.bootstrap import admin_row, bootstrap
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.store.migrations.upgrade import upgrade
from bulkdeploy.store.tables.accounts import accounts, domains, roles, users
from bulkdeploy.store.tables.catalog import metadata
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.support.processes.services import unique_name, with_database


def counts(engine: Engine) -> dict[str, int]:
    """Rows per table."""
    with engine.connect() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }


def test_first_rows_are_cloudstacks(engine: Engine) -> None:
    """ROOT, the roles 1 to 4 and the users system and admin exist, as clients expect them."""
    with engine.connect() as connection:
        assert connection.execute(select(domains.c.id, domains.c.path, domains.c.lineage)).all() == [
            (1, "ROOT", "/1/")
        ]
        found = connection.execute(select(roles.c.id, roles.c.name).where(roles.c.id <= 4))
        assert {row.id: row.name for row in found} == {
            1: "Root Admin",
            2: "Resource Admin",
            3: "Domain Admin",
            4: "User",
        }
        assert set(connection.execute(select(users.c.username)).scalars()) == {"system", "admin"}


def test_admin_has_the_given_password_and_readable_keys(engine: Engine, cipher: FernetCipher) -> None:
    """The admin may log in with the password given; both keys have 86 characters."""
    with engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    assert admin.password_hash is not None
    assert PasswordHasher().verify(admin.password_hash, ADMIN_PASSWORD)
    assert len(admin.api_key) == len(cipher.decrypt(admin.secret_key_encrypted)) == 86


def test_second_run_changes_nothing(engine: Engine, cipher: FernetCipher) -> None:
    """Bootstrapping again adds no row, and keeps the password and the keys."""
    before = counts(engine)
    with engine.connect() as connection:
        admin = admin_row(connection)
    bootstrap(engine, default_rights(), encrypt=cipher.encrypt, admin_password=lambda: "another")
    assert counts(engine) == before
    with engine.connect() as connection:
        assert admin_row(connection) == admin


def test_ids_after_the_default_rows_do_not_collide(engine: Engine) -> None:
    """Rows with fixed ids leave the sequences above them."""
    with engine.begin() as connection:
        row = {"name": "another", "domain_id": 1, "role_id": 4, "account_type": 0}
        made = connection.execute(insert(accounts).values(row).returning(accounts.c.id)).scalar_one()
    assert made > 2


def test_rivals_bootstrap_one_installation(postgres_url: str, cipher: FernetCipher) -> None:
    """Six processes that migrate and bootstrap an empty database at once make one admin."""
    name = unique_name("rivals")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    engine = create_engine(with_database(postgres_url, name))
    try:

        def start(rival: int) -> None:
            upgrade(engine)
            bootstrap(engine, default_rights(), encrypt=cipher.encrypt, admin_password=lambda: f"password {rival}")

        with ThreadPoolExecutor(6) as rivals:
            list(rivals.map(start, range(6)))
        found = counts(engine)
    finally:
        engine.dispose()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    assert (found["users"], found["api_keys"], found["domains"], found["roles"]) == (2, 1, 1, 8)
