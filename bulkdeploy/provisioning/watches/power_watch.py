"""The sweeper's reading of the power states of hosts from their management controllers.

Several sweepers divide the controllers among them: each controller is read by the sweeper that claimed it first.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row

from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.domain.infrastructure.power import PowerState
from bulkdeploy.power.driver import PowerError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.power_calls import PowerCalls, action_timeout_s
from bulkdeploy.store.availability import out_of_band_management as store
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.jobs.alerts import record_alerts

log = structlog.get_logger(__name__)

EVERY = "outofbandmanagement.background.task.execution.interval"
AT_ONCE = "outofbandmanagement.sync.poolsize"

BATCHES = 20
"""A pass reads at most so many controllers for each that it reads at once; the next pass reads the others."""


@dataclass(frozen=True, slots=True)
class PowerWatch:
    """The sweeper's pass that reads power states.

    Attributes:
        engine: the database.
        calls: the calls to controllers.
    """

    engine: Engine
    calls: PowerCalls

    def read_power_states(self) -> None:
        """Read the due power states, several at once, and write alerts about controllers that do not answer."""
        configuration, due = run_transaction(self.engine, _claim, Failpoint.SWEEP_POWER)
        if not due:
            return
        read = partial(self._read, configuration=configuration)
        with ThreadPoolExecutor(min(configuration.number(AT_ONCE), len(due)), "power") as pool:
            seen = list(pool.map(read, due))
        run_transaction(self.engine, partial(_write, rows=due, seen=seen), Failpoint.SWEEP_POWER)

    def _read(self, row: Row[Any], *, configuration: Configuration) -> PowerState | PowerError:
        return self.calls.read_state(row, action_timeout_s(configuration, row.cluster_id))


def _claim(connection: Connection) -> tuple[Configuration, Sequence[Row[Any]]]:
    configuration = read_configuration(connection)
    most = BATCHES * configuration.number(AT_ONCE)
    return configuration, store.claim_due(connection, configuration.number(EVERY), most)


def _write(connection: Connection, *, rows: Sequence[Row[Any]], seen: Sequence[PowerState | PowerError]) -> None:
    states = [
        (row.host_id, row.version, PowerState.UNKNOWN if isinstance(answer, PowerError) else answer)
        for row, answer in zip(rows, seen, strict=True)
    ]
    changed = store.write_power_states(connection, states)
    alerts = []
    for row, answer in zip(rows, seen, strict=True):
        if row.host_id in changed and isinstance(answer, PowerError):
            log.warning("power_state_unknown", host=row.host_name, why=answer.reason)
            alerts.append(_alert(row, answer))
    record_alerts(connection, alerts)


def _alert(row: Row[Any], error: PowerError) -> Alert:
    if error.is_auth:
        what = f"Out-of-band management auth-error of host {row.host_name}: {error.reason}. Check user and password"
        return Alert(AlertType.POWER_LOGIN, what)
    what = (
        f"The power state of host {row.host_name} is Unknown: {error.reason}. The host cannot be fenced until its"
        f" management controller ({row.address}, port {row.port}) answers"
    )
    return Alert(AlertType.HOST, what)
