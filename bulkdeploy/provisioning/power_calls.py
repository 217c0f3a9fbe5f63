"""Calls to the management controllers of hosts, with timeouts and failpoints, which return failures as values."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import Engine, Row

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.power.driver import Bmc, PowerError
from bulkdeploy.power.registry import PowerDrivers
from bulkdeploy.processes.failpoints import Failpoint, after, before
from bulkdeploy.store.availability.out_of_band_management import read_used_bmc
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.database.engine import read_only

log = structlog.get_logger(__name__)

ACTION_TIMEOUT = "outofbandmanagement.action.timeout"
"""The setting with the seconds that a controller may take, by cluster."""

LOOK_AGAIN_S = 0.5
"""Pause between two looks at the power state of a host that is being switched off."""


def action_timeout_s(configuration: Configuration, cluster_id: int) -> float:
    """Return the timeout in seconds of one call to a management controller in this cluster."""
    return float(configuration.number(ACTION_TIMEOUT, Scope.CLUSTER, cluster_id))


def read_bmc_and_timeout(engine: Engine, host_id: int) -> tuple[Row[Any] | None, float]:
    """Return the management controller of a host, and the timeout of a call to the controller in seconds.

    The controller is None if none is configured or if the host does not use its controller.
    """
    with read_only(engine) as connection:
        row = read_used_bmc(connection, host_id)
        return row, 0.0 if row is None else action_timeout_s(read_configuration(connection), row.cluster_id)


class PowerCalls:
    """The calls to management controllers. It is thread-safe.

    Args:
        drivers: the power drivers.
        decrypt: decrypts passwords of controllers.
    """

    def __init__(self, drivers: PowerDrivers, decrypt: Callable[[bytes], str]) -> None:
        self._drivers, self._decrypt = drivers, decrypt

    def read_state(
        self, row: Row[Any], timeout_s: float, *, password: bytes | None = None
    ) -> PowerState | PowerError:
        """Return the power state that the controller of a row of ``read_bmc`` reports, or its error.

        ``password`` is an encrypted password that replaces the one in the row.
        """
        bmc = self._bmc(row) if password is None else replace(self._bmc(row), password=self._decrypt(password))
        try:
            return self._drivers.power_state(row.driver, bmc, timeout_s=timeout_s)
        except PowerError as error:
            return error

    def act(self, row: Row[Any], action: PowerAction, timeout_s: float) -> PowerError | None:
        """Run a power action other than STATUS on a host; return the error, or None if the action was accepted."""
        before(Failpoint.POWER_ACTION)
        try:
            self._drivers.act(row.driver, self._bmc(row), action, timeout_s=timeout_s)
        except PowerError as error:
            log.warning("power_action_failed", host=row.host_name, action=action.value, why=error.reason)
            return error
        log.info("power_action", host=row.host_name, action=action.value)
        after(Failpoint.POWER_ACTION)
        return None

    def change_password(self, row: Row[Any], password: str, timeout_s: float) -> PowerError | None:
        """Change the password of the controller's user. Return None if it was changed, otherwise the error."""
        before(Failpoint.POWER_ACTION)
        try:
            self._drivers.change_password(row.driver, self._bmc(row), password, timeout_s=timeout_s)
        except PowerError as error:
            return error
        after(Failpoint.POWER_ACTION)
        return None

    def ensure_off(self, row: Row[Any], timeout_s: float) -> PowerError | None:
        """Switch a host off and verify that it is off.

        Return None if it is off, or the error if that is not certain.

        Only a state of Off that the controller reports after the action is accepted as proof. An accepted action is
        not.
        """
        end = time.monotonic() + timeout_s
        failure = self.act(row, PowerAction.OFF, timeout_s)
        while True:
            state = self.read_state(row, max(end - time.monotonic(), 1.0))
            if state is PowerState.OFF:
                return None
            if failure is None and isinstance(state, PowerError):
                failure = state
            if failure is not None or time.monotonic() >= end:
                break
            time.sleep(LOOK_AGAIN_S)
        if failure is not None:
            return failure
        return PowerError(row.host_name, f"the controller accepted OFF, but reports {state} after {timeout_s:g} s")

    def _bmc(self, row: Row[Any]) -> Bmc:
        password = self._decrypt(row.password_encrypted)
        return Bmc(row.host_uuid, row.host_name, row.address, row.port, row.username, password)
