"""One database for the tests of what users own: each test makes its own things in it, under its own names."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tests.conftest import SMALL_ZONE
from tests.lists.population import OWNERS, run
from tests.lists.world import World, open_world
from tests.support.zones import load_zone

NETWORKS_UNLIMITED = (
    "INSERT INTO resource_limits (owner_kind, owner_id, resource_type, max)"
    " SELECT 'account', id, 6, -1 FROM accounts"
    " WHERE name = 'acme' ON CONFLICT (owner_kind, owner_id, resource_type) DO UPDATE SET max = -1"
)
"""The tests together make more networks than an account may have."""


@pytest.fixture(scope="session")
def owned_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The small zone, with neighbour, rival and project moon beside acme."""
    with open_world(request) as made:
        load_zone(made.engine, made.cipher, SMALL_ZONE)
        with made.engine.begin() as connection:
            run(connection, OWNERS)
            connection.execute(text(NETWORKS_UNLIMITED))
        yield made
