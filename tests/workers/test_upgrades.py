"""The schema moves under a running service, and the service goes on."""

from collections.abc import Iterator

import psycopg
import pytest

from bulkdeploy.manage.programs import SWEEPER, WORKER
from bulkdeploy.provisioning.kinds.migrate_virtual_machine import MIGRATE
from bulkdeploy.store.database.bootstrap import bootstrap
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.store.migrations.upgrade import Half, current_revision, newest_revision, upgrade
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD, SMALL_ZONE
from tests.support.fleet import Fleet
from tests.support.services import unique_name, with_database
from tests.support.zones import load_zone
from tests.workers.processes import Start, all_done, assert_all_run, slow_boots, under_way, wait_for

VMS = 40


@pytest.fixture(scope="module")
def template_database(postgres_url: str, cipher: FernetCipher) -> Iterator[str]:
    """The small zone in a database that has seen the first half of the migrations only."""
    name = unique_name("half")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        engine = create_engine(with_database(postgres_url, name), pool_size=1)
        try:
            upgrade(engine, Half.PRE)
            bootstrap(engine, encrypt=cipher.encrypt, admin_password=lambda: ADMIN_PASSWORD)
            load_zone(engine, cipher, SMALL_ZONE)
        finally:
            engine.dispose()
        yield name
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_both_halves_run_while_a_batch_is_drained(fleet: Fleet, start: Start) -> None:
    """Between the halves, during the second, and after it jobs are made and run; the first one can be repeated."""
    slow_boots(fleet, 200)
    start(*SWEEPER)
    start(*WORKER)
    fleet.deploy(VMS)
    wait_for(lambda: under_way(fleet) > 0)
    upgrade(fleet.engine, Half.PRE)
    fleet.deploy(1, bulk=False)
    assert not all_done(fleet)
    upgrade(fleet.engine)
    with fleet.engine.connect() as connection:
        assert current_revision(connection) == newest_revision()
    assert not all_done(fleet)
    fleet.make_job(MIGRATE, fleet.vms()[0].id)
    fleet.deploy(VMS)
    fleet.sweeper().send_unsent()
    wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 2 * VMS + 1)
