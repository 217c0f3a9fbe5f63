"""Worlds with things of every kind, made once for all tests that read them, and worlds that tests may change."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from bulkdeploy.api.app import create_app
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.conftest import SMALL_ZONE
from tests.support.api.api_server import serving
from tests.support.hypervisors.drivers import always
from tests.support.processes.services import copy_database, database_clone, made_once, without_time_limits
from tests.support.zones.infrastructure_calls import Cloud
from tests.support.zones.population import OWNERS, add_owners_and_things, finish_vms, run
from tests.support.zones.world import World, deploy_vms, open_world
from tests.support.zones.zone_files import load_zone


def populate(world: World) -> None:
    """Fill a bootstrapped database with the world that ``population`` describes."""
    load_zone(world.engine, world.cipher, SMALL_ZONE)
    with world.engine.begin() as connection:
        add_owners_and_things(connection)
    deploy_vms(world)
    with world.engine.begin() as connection:
        finish_vms(connection)


@pytest.fixture(scope="session")
def populated_database(request: pytest.FixtureRequest, postgres_url: str, bare_database: str) -> str:
    """The name of a database with that world, which nobody is connected to."""

    def make(name: str) -> None:
        with open_world(request, bare_database) as made:
            populate(made)
            made.engine.dispose()
            copy_database(postgres_url, str(made.engine.url.database), name)

    return made_once(postgres_url, "populated", make)


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, populated_database: str) -> Iterator[World]:
    """The world that tests read and never change: the run fails at its end if one of them did."""
    with open_world(request, populated_database) as made:
        before = _named_rows(made)
        yield made
        after = _named_rows(made)
        assert after == before, f"tests changed the world of all tests: {sorted(after ^ before)}"


def _named_rows(world: World) -> set[tuple[str, str]]:
    """The names in each table that has names."""
    with world.engine.connect() as connection:
        tables = connection.scalars(
            text(
                "SELECT table_name FROM information_schema.columns JOIN information_schema.tables"
                " USING (table_schema, table_name) WHERE table_schema = 'public' AND column_name = 'name'"
                " AND table_type = 'BASE TABLE'"
            )
        ).all()
        return {
            (table, str(name)) for table in tables for name in connection.scalars(text(f"SELECT name FROM {table}"))
        }


@pytest.fixture
def fresh_world(request: pytest.FixtureRequest, small_zone_database: str) -> Iterator[World]:
    """The small zone alone, for tests that change it."""
    with open_world(request, small_zone_database) as made:
        yield made


NETWORKS_UNLIMITED = (
    "INSERT INTO resource_limits (owner_kind, owner_id, resource_type, max)"
    " SELECT 'account', id, 6, -1 FROM accounts"
    " WHERE name = 'acme' ON CONFLICT (owner_kind, owner_id, resource_type) DO UPDATE SET max = -1"
)
"""The tests together make more networks than an account may have."""


@pytest.fixture(scope="session")
def owned_world(request: pytest.FixtureRequest, small_zone_database: str) -> Iterator[World]:
    """The small zone, with neighbour, rival and project moon beside acme."""
    with open_world(request, small_zone_database) as made:
        with made.engine.begin() as connection:
            run(connection, OWNERS)
            connection.execute(text(NETWORKS_UNLIMITED))
        yield made


@pytest.fixture(scope="session")
def cloud(
    postgres_url: str,
    redis_url: str,
    small_zone_database: str,
    cipher: FernetCipher,
    fleet_simulator_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cloud]:
    """One for all tests: each works in zones of its own."""
    folder: Path = tmp_path_factory.mktemp("infrastructure")
    with database_clone(postgres_url, small_zone_database) as url:
        engine = create_engine(without_time_limits(url), pool_size=20)
        settings = Settings(database_url=url, redis_url=redis_url, data_dir=folder)
        driver = SimulatorDriver(fleet_simulator_url, pool_size=2)
        system = System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
        try:
            with serving(create_app(system, refuse_undeclared_fields=True)) as address:
                yield Cloud(engine, address, cipher, driver)
        finally:
            driver.close()
            engine.dispose()
