"""Fixtures of the tests of the catalog."""

from tests.support.zones.fleet import fleet_simulator_url

__all__ = ["fleet_simulator_url"]
