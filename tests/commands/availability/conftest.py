"""Fixtures of the tests of how hosts are kept available."""

from tests.support.zones.fleet import fleet, fleet_simulator_url, template_database

__all__ = ["fleet", "fleet_simulator_url", "template_database"]
