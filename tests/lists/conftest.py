"""The worlds of the list tests: one that is only read, made once, and fresh ones to change."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import SMALL_ZONE
from tests.lists.population import add_owners_and_things, finish_vms
from tests.lists.world import World, deploy_vms, open_world
from tests.support.zones import load_zone


def populate(world: World) -> None:
    """Fill a bootstrapped database with the world that ``population`` describes."""
    load_zone(world.engine, world.cipher, SMALL_ZONE)
    with world.engine.begin() as connection:
        add_owners_and_things(connection)
    deploy_vms(world)
    with world.engine.begin() as connection:
        finish_vms(connection)


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The world that tests read and never change."""
    with open_world(request) as made:
        populate(made)
        yield made


@pytest.fixture
def fresh_world(engine: Engine, api_url: str, cipher: FernetCipher) -> World:
    """The small zone alone, for tests that change it."""
    load_zone(engine, cipher, SMALL_ZONE)
    return World(engine, api_url, cipher)
