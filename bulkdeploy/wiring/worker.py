"""The composition root of the worker half: what workers and the sweeper work with."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine

from bulkdeploy.drivers.registry import DriverOptions, Drivers, build_drivers
from bulkdeploy.drivers.simulator_database import derived_url, ensure_database
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import arm_crash_points, build_engine, build_job_queue

SIMULATOR = "simulator"


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker process's parts; ``close`` gives back what they hold."""

    settings: Settings
    engine: Engine
    drivers: Drivers
    job_queue: JobQueue

    def close(self) -> None:
        """Close drivers and database connections."""
        self.drivers.close()
        self.engine.dispose()


def build_worker(settings: Settings) -> Worker:
    """Everything the worker half works with. Makes the simulator's database where a driver needs it.

    Raises:
        SettingMissing: no database or no courier is configured.
        drivers.registry.UnknownDriver: the setting ``drivers`` names one that nobody provides.
    """
    arm_crash_points(settings)
    return Worker(
        settings=settings,
        engine=build_engine(settings, application_name="bulkdeploy worker"),
        drivers=build_configured_drivers(settings),
        job_queue=build_job_queue(settings),
    )


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
