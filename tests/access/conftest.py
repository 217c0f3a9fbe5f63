"""A world with things of every kind and owner that these tests may change, made once for each module."""

from collections.abc import Iterator

import pytest

from bulkdeploy.api.app import create_app
from bulkdeploy.services.system import System
from bulkdeploy.store.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.lists.conftest import populate
from tests.lists.world import World
from tests.support.api_server import serving
from tests.support.fleet import fleet, fleet_simulator_url
from tests.support.services import database_clone

__all__ = ["fleet", "fleet_simulator_url"]


@pytest.fixture(scope="module")
def world(
    postgres_url: str,
    redis_url: str,
    template_database: str,
    cipher: FernetCipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """The world of the list tests, with a database of its own."""
    with database_clone(postgres_url, template_database) as url:
        engine = create_engine(url, pool_size=20)
        settings = Settings(database_url=url, redis_url=redis_url, data_dir=tmp_path_factory.mktemp("data"))
        system = System(engine, build_job_queue(settings), cipher, settings.data_dir)
        with serving(create_app(system, refuse_undeclared_fields=True)) as address:
            made = World(engine, address, cipher)
            populate(made)
            yield made
        engine.dispose()
