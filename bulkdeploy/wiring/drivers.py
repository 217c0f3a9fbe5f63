"""The creation of drivers from settings: their options, and the database of simulated drivers."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from sqlalchemy import Engine

from bulkdeploy.drivers.registry import Drivers, configure_drivers
from bulkdeploy.drivers.simulator.database import derived_url
from bulkdeploy.power.registry import PowerDrivers
from bulkdeploy.security.guarded_fetch import Fetcher
from bulkdeploy.wiring.cipher import build_cipher
from bulkdeploy.wiring.driver_records import records_in
from bulkdeploy.wiring.settings import Settings

SIMULATOR = "simulator"
URL = "url"


def build_configured_drivers(settings: Settings, engine: Engine) -> Drivers:
    """Return the drivers in the setting ``drivers``, with their options.

    No driver is created yet.

    ``engine`` is the database in which drivers store data that their hypervisors do not know.

    Raises:
        DriverSettingError: the settings of drivers are wrong.
        SettingMissing: a simulated driver is configured, and no database.
    """
    fetcher = Fetcher(settings.fetch, settings.server_hosts)
    cipher = cache(partial(build_cipher, settings))  # the key is read when the first secret is decrypted
    make_records = partial(records_in, engine, fetcher=fetcher, decrypt=lambda token: cipher().decrypt(token))
    return configure_drivers(settings.drivers, _driver_options(settings), make_records)


def build_power_drivers(settings: Settings) -> PowerDrivers:
    """Return the power drivers, with the options in the setting ``power``.

    No driver is created yet.

    Simulated management controllers use the database of simulated hypervisors.

    Raises:
        DriverSettingError: there are options of a driver that is not installed.
    """
    if SIMULATOR not in settings.drivers.values():
        return PowerDrivers(settings.power)
    given = settings.power.get(SIMULATOR, {})
    return PowerDrivers({**settings.power, SIMULATOR: {URL: simulator_url(settings), **given}})


def simulator_url(settings: Settings) -> str:
    """Return the URL of the database in which simulated hypervisors store their guests."""
    given = settings.driver.get(SIMULATOR, {}).get(URL)
    return str(given) if given else derived_url(settings.require_database_url())


def _driver_options(settings: Settings) -> Mapping[str, Mapping[str, Any]]:
    if SIMULATOR not in settings.drivers.values():
        return settings.driver
    given = settings.driver.get(SIMULATOR, {})
    return {**settings.driver, SIMULATOR: {**given, URL: simulator_url(settings)}}
