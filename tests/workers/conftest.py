"""Fixtures of the tests with real processes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bulkdeploy.embedded.valkey import ValkeyServer
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.programs import program
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database
from tests.workers.processes import Start

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

SHORTEST_LEASE_S = 5


@pytest.fixture
def quick(fleet: Fleet) -> Settings:
    """Settings with the shortest lease and a busy sweeper."""
    return fleet.settings.model_copy(
        update={"lease_seconds": SHORTEST_LEASE_S, "sweep_interval_seconds": 0.2, "worker_threads": 8}
    )


@pytest.fixture
def start(quick: Settings, tmp_path: Path) -> Iterator[Start]:
    """Starts programs; they end with the test, and their log must hold no traceback."""
    log = tmp_path / "programs.log"
    running = []

    def launch(*arguments: str):  # type: ignore[no-untyped-def]
        manager = program(quick, log, *arguments)
        running.append(manager)
        return manager.__enter__()

    yield launch
    for manager in reversed(running):
        manager.__exit__(None, None, None)
    text = log.read_text()
    sys.stderr.write(text)
    assert "Traceback" not in text


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A message broker that a test may kill and start again."""
    server = ValkeyServer(tmp_path / "valkey.log")
    server.start()
    yield server
    server.stop()
