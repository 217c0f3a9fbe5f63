"""One database for the tests of what users own: each test makes its own things in it, under its own names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bulkdeploy.api.app import create_app
from bulkdeploy.services.inventory import load_inventory
from bulkdeploy.services.system import System
from bulkdeploy.store.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.lists.population import OWNERS, run
from tests.lists.world import World
from tests.support.api_server import serving
from tests.support.services import database_clone

SMALL_ZONE = Path(__file__).parents[1] / "zones" / "small.yaml"


@pytest.fixture(scope="session")
def owned_world(
    postgres_url: str,
    redis_url: str,
    template_database: str,
    cipher: FernetCipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """The small zone, with neighbour, rival and project moon beside acme."""
    with database_clone(postgres_url, template_database) as url:
        engine = create_engine(url, pool_size=20)
        settings = Settings(database_url=url, redis_url=redis_url, data_dir=tmp_path_factory.mktemp("data"))
        system = System(engine, build_job_queue(settings), cipher, settings.data_dir)
        with serving(create_app(system, refuse_undeclared_fields=True)) as address:
            load_inventory(engine, cipher, SMALL_ZONE)
            with engine.begin() as connection:
                run(connection, OWNERS)
            yield World(engine, address, cipher)
        engine.dispose()
