"""A world with things of every kind and owner that these tests may change, made once for each module."""

from collections.abc import Iterator

import pytest

from tests.lists.conftest import populate
from tests.lists.world import World, open_world
from tests.support.fleet import fleet, fleet_simulator_url

__all__ = ["fleet", "fleet_simulator_url"]


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The world of the list tests, with a database of its own."""
    with open_world(request) as made:
        populate(made)
        yield made
