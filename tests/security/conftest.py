"""A world of accounts, places and VMs that the tests of one module may change, behind a real HTTP server."""

from collections.abc import Iterator

import pytest

from tests.access.conftest import walker
from tests.support.zones.world import World, open_world

__all__ = ["walker"]


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, populated_database: str) -> Iterator[World]:
    """The world of the list tests, with a database of its own."""
    with open_world(request, populated_database) as made:
        yield made
