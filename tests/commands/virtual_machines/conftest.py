"""Fixtures of the tests of lifecycle calls and job polling."""

from tests.support.zones.fleet import fleet, fleet_simulator_url, template_database

__all__ = ["fleet", "fleet_simulator_url", "template_database"]
