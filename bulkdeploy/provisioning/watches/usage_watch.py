"""The sweeper's measurement of the usage of guests, hosts and storage pools."""

import time
from functools import partial

import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.domain.virtual_machines.usage import HostUsage
from bulkdeploy.drivers.abilities.usage import UsageFigures
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import address_of
from bulkdeploy.drivers.registry import FindsDrivers, NoDriverFor
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.driver_calls import PATIENCE_S
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.hypervisors import usage as store
from bulkdeploy.store.hypervisors.watching import hypervisors_in_use, watched_hosts
from bulkdeploy.store.jobs.alerts import record_alerts

log = structlog.get_logger(__name__)

INTERVAL, RETENTION = "vm.stats.interval", "vm.stats.max.retention.time"
MOST_HOSTS = 500
"""Hosts whose figures are written in one transaction."""


IDLE_S = 60.0
"""The pause between two rounds while the measurement is disabled."""


class UsageWatch:
    """The measurement of hosts that are Up, every ``vm.stats.interval`` milliseconds; 0 disables it.

    The statistics of a VM are written at most once per interval. A host that does not answer keeps its last
    statistics for ``store.KEPT_MINUTES`` minutes.
    """

    def __init__(self, engine: Engine, drivers: FindsDrivers, timeout_s: float) -> None:
        self._engine, self._drivers = engine, drivers
        self._timeout_s = min(timeout_s, PATIENCE_S)
        self._due = 0.0
        self._samples_minutes = 0

    def measure_usage(self) -> None:
        """Measure all hosts if the interval has passed."""
        began = time.monotonic()
        if began < self._due:
            return
        with read_only(self._engine) as connection:
            settings = read_configuration(connection)
            interval_s, self._samples_minutes = settings.number(INTERVAL) / 1000, settings.number(RETENTION)
            hypervisors = hypervisors_in_use(connection) if interval_s else []
        self._due = began + (interval_s or IDLE_S)
        for hypervisor in hypervisors:
            self._measure(hypervisor)
        # Also if nothing is measured any more: otherwise full pools would stay marked as full.
        run_transaction(self._engine, _mark_full_pools, Failpoint.SWEEP_USAGE)
        delete = partial(store.delete_old_usage, samples_minutes=self._samples_minutes)
        run_transaction(self._engine, delete, Failpoint.SWEEP_USAGE)

    def _measure(self, hypervisor: str) -> None:
        try:
            driver = self._drivers.driver_for(hypervisor)
        except NoDriverFor:
            return
        if UsageFigures not in driver.abilities:
            return
        with read_only(self._engine) as connection:
            rows = watched_hosts(connection, [hypervisor])
        hosts = [address_of(row) for row in rows if row.state == HostState.UP]
        for at in range(0, len(hosts), MOST_HOSTS):
            some = hosts[at : at + MOST_HOSTS]
            try:
                answers = UsageFigures.of(driver, "usage", None).usage_of_hosts(some, timeout_s=self._timeout_s)
            except DriverError as error:
                log.warning("usage_not_measured", hypervisor=hypervisor, why=str(error))
                return
            measured = [one for one in answers if isinstance(one, HostUsage)]
            silent = [str(one) for one in answers if isinstance(one, DriverError)]
            if silent:
                log.warning("usage_not_measured", hypervisor=hypervisor, hosts=len(silent), why=silent[0])
            run_transaction(
                self._engine,
                partial(_write, measured=measured, keep_samples=self._samples_minutes > 0),
                Failpoint.SWEEP_USAGE,
            )


def _mark_full_pools(connection: Connection) -> None:
    record_alerts(connection, store.mark_full_pools(connection))


def _write(connection: Connection, *, measured: list[HostUsage], keep_samples: bool) -> None:
    store.write_usage(connection, measured, keep_samples=keep_samples)
