"""The worlds of the list tests: one that is only read, made once, and fresh ones to change."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulkdeploy.api.app import create_app
from bulkdeploy.services.inventory import load_inventory
from bulkdeploy.services.system import System
from bulkdeploy.store.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.lists.population import add_owners_and_things, finish_vms
from tests.lists.world import World, deploy_vms
from tests.support.api_server import serving
from tests.support.services import database_clone

SMALL_ZONE = Path(__file__).parents[1] / "zones" / "small.yaml"


def populate(world: World) -> None:
    """Fill a bootstrapped database with the world that ``population`` describes."""
    load_inventory(world.engine, world.cipher, SMALL_ZONE)
    with world.engine.begin() as connection:
        add_owners_and_things(connection)
    deploy_vms(world)
    with world.engine.begin() as connection:
        finish_vms(connection)


@pytest.fixture(scope="session")
def world(
    postgres_url: str,
    redis_url: str,
    template_database: str,
    cipher: FernetCipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """The world that tests read and never change."""
    with database_clone(postgres_url, template_database) as url:
        engine = create_engine(url, pool_size=20)
        settings = Settings(database_url=url, redis_url=redis_url, data_dir=tmp_path_factory.mktemp("data"))
        system = System(engine, build_job_queue(settings), cipher, settings.data_dir)
        with serving(create_app(system, refuse_undeclared_fields=True)) as address:
            made = World(engine, address, cipher)
            populate(made)
            yield made
        engine.dispose()


@pytest.fixture
def fresh_world(engine: Engine, api_url: str, cipher: FernetCipher) -> World:
    """The small zone alone, for tests that change it."""
    load_inventory(engine, cipher, SMALL_ZONE)
    return World(engine, api_url, cipher)
