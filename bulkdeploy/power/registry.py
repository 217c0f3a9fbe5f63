"""The power drivers by name, and calls to them with timeouts.

This module lists the drivers of this project. Other packages add drivers with entry points in the group
``bulkdeploy.power_drivers``, whose name is the name of the driver and whose object is its class.
"""

import importlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from threading import Lock, Thread
from typing import Any, TypeVar
from uuid import UUID

from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.drivers.installed import InstalledDrivers, UnknownDriver
from bulkdeploy.drivers.options import DriverSettingError, read_options
from bulkdeploy.power.driver import Bmc, PowerDriver, PowerError

T = TypeVar("T")

ENTRY_POINT_GROUP = "bulkdeploy.power_drivers"
TABLE = "power"
"""The table in the settings that contains a table of options for each power driver."""

IN_TREE = {
    "ipmitool": ("bulkdeploy.power.ipmitool", "IpmitoolDriver"),
    "redfish": ("bulkdeploy.power.redfish", "RedfishDriver"),
    "simulator": ("bulkdeploy.power.simulator", "SimulatedPower"),
}
"""The module and the class of each driver. A module is imported when its driver is first used."""

GRACE_S = 1.0
"""The seconds after a driver's timeout when a call that has not ended is abandoned."""


def _load_in_tree(name: str) -> type[PowerDriver]:
    module, found = IN_TREE[name]
    driver: type[PowerDriver] = getattr(importlib.import_module(module), found)
    return driver


INSTALLED = InstalledDrivers(PowerDriver, ENTRY_POINT_GROUP, IN_TREE.keys, _load_in_tree)  # type: ignore[type-abstract]


class PowerDrivers:
    """The power drivers of a process by name.

    A driver is created when it is first used.

    A call never takes longer than its timeout and GRACE_S, even if a controller sends its answer byte by byte. A
    call that takes longer is abandoned, and the next calls to the same controller fail until the abandoned call has
    ended.

    Args:
        options: the options of each driver, from the settings.
    """

    def __init__(self, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._options = options or {}
        self._made: dict[str, PowerDriver] = {}
        self._lock = Lock()
        self._calling: set[UUID] = set()
        for name in self._options:
            if not INSTALLED.has(name):
                raise UnknownDriver(f"{TABLE}.{name}", name, INSTALLED.names())

    def find(self, name: str, setting: str) -> type[PowerDriver]:
        """Return the class of the driver ``name``.

        ``setting`` is named in errors; see ``InstalledDrivers.find``.
        """
        return INSTALLED.find(name, setting)

    def power_state(self, name: str, bmc: Bmc, *, timeout_s: float) -> PowerState:
        """Return the power state that a controller reports.

        Raises:
            PowerError: the controller did not answer or rejected the request.
        """
        return self._bounded(bmc, timeout_s, lambda: self._driver(name, bmc).power_state(bmc, timeout_s=timeout_s))

    def act(self, name: str, bmc: Bmc, action: PowerAction, *, timeout_s: float) -> None:
        """Execute a power action other than STATUS.

        Raises:
            PowerError: the controller did not answer or rejected the request.
        """
        self._bounded(bmc, timeout_s, lambda: self._driver(name, bmc).act(bmc, action, timeout_s=timeout_s))

    def change_password(self, name: str, bmc: Bmc, password: str, *, timeout_s: float) -> None:
        """Change the password of a controller's user.

        Raises:
            PowerError: the controller did not answer or rejected the request.
        """
        self._bounded(
            bmc, timeout_s, lambda: self._driver(name, bmc).change_password(bmc, password, timeout_s=timeout_s)
        )

    def close(self) -> None:
        """Close all drivers that were created."""
        with ExitStack() as stack:
            for driver in self._made.values():
                stack.callback(driver.close)

    def _driver(self, name: str, bmc: Bmc) -> PowerDriver:
        with self._lock:
            if name not in self._made:
                try:
                    found = self.find(name, "driver")
                    options = read_options(name, found.options_model, self._options.get(name, {}), TABLE)
                    self._made[name] = found.from_options(options)
                except DriverSettingError as error:
                    raise PowerError(bmc.host_name, f"the power driver cannot be used: {error}") from error
            return self._made[name]

    def _bounded(self, bmc: Bmc, timeout_s: float, call: Callable[[], T]) -> T:
        ends: list[T] = []
        failures: list[Exception] = []

        def run() -> None:
            try:
                ends.append(call())
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits
                failures.append(error)
            finally:
                with self._lock:
                    self._calling.discard(bmc.host_uuid)

        with self._lock:
            if bmc.host_uuid in self._calling:
                raise PowerError(bmc.host_name, "an earlier call has not ended yet", is_unanswered=True)
            self._calling.add(bmc.host_uuid)
        thread = Thread(target=run, name="power", daemon=True)
        thread.start()
        thread.join(timeout_s + GRACE_S)
        if failures:
            raise _as_power_error(bmc, failures[0])
        if not ends:
            raise PowerError(bmc.host_name, f"no answer within {timeout_s:g} s", is_unanswered=True)
        return ends[0]


def _as_power_error(bmc: Bmc, error: Exception) -> PowerError:
    """Return an exception of a driver as a PowerError. An unexpected exception is a failed call."""
    if isinstance(error, PowerError):
        return error
    return PowerError(
        bmc.host_name, f"the power driver failed with {type(error).__name__}: {error}", is_unanswered=True
    )
