"""A world with things of every kind and owner that these tests may change, made once for each module."""

from collections.abc import Iterator

import pytest

from bulkdeploy.services.system import System
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.access.tenants import add_tenants
from tests.access.walking import Walker
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.zones.fleet import fleet, fleet_simulator_url
from tests.support.zones.world import World, open_world

__all__ = ["fleet", "fleet_simulator_url"]


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, populated_database: str) -> Iterator[World]:
    """The world of the list tests, with a database of its own."""
    with open_world(request, populated_database) as made:
        yield made


@pytest.fixture(scope="package")
def walker(
    request: pytest.FixtureRequest,
    populated_database: str,
    redis_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Walker]:
    """Somebody who can call as anybody, in a world where everybody owns something of each kind.

    It is for calls that change nothing, and for copies in which all may be done.
    """
    with open_world(request, populated_database) as made:
        add_tenants(made)
        url = made.engine.url.render_as_string(hide_password=False).replace("+psycopg", "")
        settings = Settings(database_url=url, redis_url=redis_url, data_dir=tmp_path_factory.mktemp("walk"))
        yield Walker(
            made, System(made.engine, build_job_queue(settings), made.cipher, settings.data_dir, SIMULATED)
        )
