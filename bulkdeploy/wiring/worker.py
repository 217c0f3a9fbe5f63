"""The composition root of the worker half: what workers and the sweeper work with."""

from dataclasses import dataclass

from sqlalchemy import Engine

from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.wiring.drivers import build_configured_drivers
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import arm_crash_points, build_engine, build_job_queue


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
