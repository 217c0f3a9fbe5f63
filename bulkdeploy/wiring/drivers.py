"""From settings to drivers: which there are, and where the simulated ones keep their state."""

from collections.abc import Mapping

from bulkdeploy.drivers.registry import DriverOptions, Drivers, build_drivers
from bulkdeploy.drivers.simulator_database import derived_url, ensure_database
from bulkdeploy.wiring.settings import Settings

SIMULATOR = "simulator"


def build_configured_drivers(settings: Settings) -> Drivers:
    """The drivers that the setting ``drivers`` names."""
    return build_drivers(settings.drivers, _driver_options(settings))


def simulator_url(settings: Settings) -> str:
    """Where simulated hypervisors keep their guests."""
    return settings.simulator_database_url or derived_url(settings.require_database_url())


def _driver_options(settings: Settings) -> Mapping[str, DriverOptions]:
    if SIMULATOR not in settings.drivers.values():
        return {}
    url = simulator_url(settings)
    ensure_database(url)
    return {SIMULATOR: {"url": url, "pool_size": settings.database_pool_size}}
