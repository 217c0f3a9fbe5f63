"""Creates all objects of a worker or sweeper process from the settings."""

import time
from dataclasses import dataclass

import structlog
from sqlalchemy import Engine

from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.power.registry import PowerDrivers
from bulkdeploy.provisioning.power_calls import PowerCalls
from bulkdeploy.provisioning.watches.host_ha import HostHa
from bulkdeploy.provisioning.watches.power_watch import PowerWatch
from bulkdeploy.queue.job_queue import JobQueue, QueueUnavailable
from bulkdeploy.services.system import System
from bulkdeploy.store.database.availability import is_unreachable, ping
from bulkdeploy.store.database.engine import Plans, read_only
from bulkdeploy.store.migrations.revisions import SchemaMismatch
from bulkdeploy.wiring.cipher import build_cipher
from bulkdeploy.wiring.drivers import build_configured_drivers, build_power_drivers
from bulkdeploy.wiring.scheduled_work import DUE_ROWS, ClusterDrs, DueRows, SnapshotRetention
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import arm_failpoints, build_engine, build_job_queue

log = structlog.get_logger(__name__)

RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Worker:
    """The objects of a worker or sweeper process."""

    settings: Settings
    engine: Engine
    drivers: Drivers
    power: PowerDrivers
    job_queue: JobQueue

    def decrypt(self, token: bytes) -> str:
        """Return the secret in ``token``. The key is read at each call."""
        return build_cipher(self.settings).decrypt(token)

    def system(self) -> System:
        """Return the objects that services need, with this worker's engine."""
        return System(
            engine=self.engine,
            job_queue=self.job_queue,
            cipher=build_cipher(self.settings),
            data_dir=self.settings.data_dir,
            drivers=self.drivers,
            power=self.power,
        )

    def due_rows(self) -> list[DueRows]:
        """Return the sweeper's work on rows that become due at certain times."""
        system = self.system()
        return [of(system) for of in DUE_ROWS]

    def snapshot_retention(self) -> SnapshotRetention:
        """Return the sweeper's work on snapshots beyond the number that policies keep."""
        return SnapshotRetention(self.system())

    def cluster_drs(self) -> ClusterDrs:
        """Return the sweeper's work on clusters that are balanced automatically."""
        return ClusterDrs(self.system())

    def host_ha(self) -> HostHa:
        """Return the sweeper's work on high availability of hosts."""
        power = PowerCalls(self.power, self.decrypt)
        return HostHa(self.engine, self.drivers, power, self.settings.driver_timeout_seconds)

    def power_watch(self) -> PowerWatch:
        """Return the sweeper's work that reads the power states of hosts."""
        return PowerWatch(self.engine, PowerCalls(self.power, self.decrypt))

    def trouble(self) -> str | None:
        """Return why this process cannot work now, or None if the database and Redis answer."""
        try:
            self.job_queue.waiting()
            with read_only(self.engine) as connection:
                ping(connection)
        except QueueUnavailable:
            return "Redis cannot be reached"
        except Exception as error:
            if not is_unreachable(error):
                raise
            return str(error) if isinstance(error, SchemaMismatch) else "the database cannot be reached"
        return None

    def close(self) -> None:
        """Close the drivers and the database connections."""
        self.drivers.close()
        self.power.close()
        self.engine.dispose()


def build_worker(settings: Settings, *, plans: Plans = Plans.KEPT_BY_INDEX) -> Worker:
    """Return the objects of a worker process, with all drivers created.

    Raises:
        SettingMissing: no database or no message broker is configured.
        drivers.options.DriverSettingError: the settings of drivers are wrong.
    """
    arm_failpoints(settings)
    engine = build_engine(settings, application_name="bulkdeploy worker", plans=plans)
    try:
        drivers = build_configured_drivers(settings, engine)
        if not drivers.make_all():
            why = "the setting drivers is empty: every job that needs a hypervisor will fail"
            log.warning("no_drivers", why=why)
    except BaseException:
        engine.dispose()
        raise
    return Worker(
        settings=settings,
        engine=engine,
        drivers=drivers,
        power=build_power_drivers(settings),
        job_queue=build_job_queue(settings),
    )


def build_worker_when_ready(settings: Settings, *, plans: Plans = Plans.KEPT_BY_INDEX) -> Worker:
    """Return the objects of a worker process, as soon as the database can be used.

    The function waits while the database cannot be reached or has an older schema than this release needs.
    """
    while True:
        worker = None
        try:
            worker = build_worker(settings, plans=plans)
            with worker.engine.connect():
                return worker
        except Exception as error:
            if worker is not None:
                worker.close()
            if not is_unreachable(error):
                raise
            log.warning("database_away", why=str(error).splitlines()[0], next_try_s=RETRY_S)
        time.sleep(RETRY_S)
