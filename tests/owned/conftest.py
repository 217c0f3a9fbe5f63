"""One database for the tests of what users own: each test makes its own things in it, under its own names."""

from collections.abc import Iterator

import pytest

from bulkdeploy.services.inventory import load_inventory
from tests.conftest import SMALL_ZONE
from tests.lists.population import OWNERS, run
from tests.lists.world import World, open_world


@pytest.fixture(scope="session")
def owned_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The small zone, with neighbour, rival and project moon beside acme."""
    with open_world(request) as made:
        load_inventory(made.engine, made.cipher, SMALL_ZONE)
        with made.engine.begin() as connection:
            run(connection, OWNERS)
        yield made
