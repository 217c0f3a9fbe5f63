"""Fixtures of the tests of accounts: a world that each module may change, and a fleet."""

from tests.access.conftest import world
from tests.support.zones.fleet import fleet, fleet_simulator_url

__all__ = ["fleet", "fleet_simulator_url", "world"]
