"""A simulator's database for the growth checks."""

from tests.support.zones.fleet import fleet_simulator_url

__all__ = ["fleet_simulator_url"]
