"""A cloud with the users of the small zone: what else tests need in it they build by calls."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bulkdeploy.api.app import create_app
from bulkdeploy.drivers.simulator import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.infrastructure.cloud import Cloud
from tests.support.api_server import serving
from tests.support.drivers import always
from tests.support.fleet import fleet_simulator_url
from tests.support.services import database_clone

__all__ = ["fleet_simulator_url"]


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
        engine = create_engine(url, pool_size=20)
        settings = Settings(database_url=url, redis_url=redis_url, data_dir=folder)
        driver = SimulatorDriver(fleet_simulator_url, pool_size=2)
        system = System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
        try:
            with serving(create_app(system, refuse_undeclared_fields=True)) as address:
                yield Cloud(engine, address, cipher, driver)
        finally:
            driver.close()
            engine.dispose()
