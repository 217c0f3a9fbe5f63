"""A simulator's database for the run, an empty one for each test, and things to ask drivers for."""

from collections.abc import Iterator

import pytest
from psycopg import Connection

from bulkdeploy.drivers.simulator.database import clear_state, connect, drop_database, ensure_database
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from tests.support.processes.services import unique_name, with_database


@pytest.fixture(scope="session")
def made_simulator_url(postgres_url: str) -> Iterator[str]:
    """The URL of a simulator's database that lasts for the run."""
    url = with_database(postgres_url, unique_name("simulator"))
    ensure_database(url)
    yield url
    drop_database(url)


@pytest.fixture
def simulator_url(made_simulator_url: str) -> str:
    """The URL of a simulator's database in which nothing is known."""
    with connect(made_simulator_url) as connection:
        clear_state(connection)
    return made_simulator_url


@pytest.fixture
def control(simulator_url: str) -> Iterator[Connection]:
    """A connection to change faults and latencies with."""
    with connect(simulator_url) as connection:
        yield connection


@pytest.fixture
def naps() -> list[float]:
    """The seconds that ``simulator`` slept, nap by nap; no time passes."""
    return []


@pytest.fixture
def simulator(simulator_url: str, naps: list[float]) -> Iterator[SimulatorDriver]:
    """A driver on an empty simulator."""
    driver = SimulatorDriver(simulator_url, seed=7, sleep=naps.append)
    yield driver
    driver.close()
