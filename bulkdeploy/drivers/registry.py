"""The drivers by hypervisor type.

A built-in driver is a package beside this module with the driver's name. Its ``driver.py`` contains the class as
``DRIVER``, and its ``options.py`` the options as ``OPTIONS``. Another package adds a driver by an entry point in
the group ``bulkdeploy.drivers`` whose name is the driver's name and whose object is the class.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import bulkdeploy.drivers
from bulkdeploy.domain.virtual_machines.device_parameters import Device
from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.installed import InstalledDrivers
from bulkdeploy.drivers.options import TABLE, DriverOptions, DriverSettingError, read_options
from bulkdeploy.drivers.records import MakeRecords

ENTRY_POINT_GROUP = "bulkdeploy.drivers"
IN_TREE = "DRIVER"

DEFAULT = "default"
"""The key of the driver for all hypervisor types that the settings do not name."""

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""The pattern of drivers' names.

A name becomes a part of environment variables, where two underscores separate the parts.
"""


class NoDriverFor(DriverSettingError):
    """Raised if the settings name no driver for a hypervisor type and no default driver."""

    def __init__(self, hypervisor: str) -> None:
        self.hypervisor = hypervisor
        variable = f"BULKDEPLOY_DRIVERS__{hypervisor.upper()}"
        super().__init__(
            f"no driver is set for hypervisor {hypervisor}: set drivers.{hypervisor} ({variable}) to a driver's"
            f" name, and set the driver's options in [{TABLE}.NAME]. See docs/tutorials/drivers.md"
        )


class FindsDrivers(Protocol):
    """An object that finds the driver of a hypervisor type."""

    def driver_for(self, hypervisor: str) -> HypervisorDriver:
        """Return the driver of a hypervisor type such as ``KVM``.

        Raises:
            NoDriverFor: the settings name no driver for the hypervisor type.
        """


@dataclass(frozen=True, slots=True)
class ConfiguredDriver:
    """A driver with its options, from which ``make`` creates the driver object."""

    name: str
    abilities: frozenset[type[Ability]]
    make: Callable[[], HypervisorDriver]
    device_parameters: Mapping[Device, frozenset[str]] = field(default_factory=dict)


class Drivers:
    """The drivers of a process, by hypervisor type in any case.

    Each driver is created at its first use.

    Args:
        by_hypervisor: the driver by hypervisor type, or DEFAULT. Hypervisor types may share a driver.
        make_records: creates the records that a driver receives. If None, drivers that need records cannot be used.
    """

    def __init__(
        self, by_hypervisor: Mapping[str, ConfiguredDriver], make_records: MakeRecords | None = None
    ) -> None:
        self._make_records = make_records
        self._by_hypervisor = {kind.lower(): driver for kind, driver in by_hypervisor.items()}
        self._made: dict[str, HypervisorDriver] = {}
        self._making = Lock()

    def find(self, hypervisor: str) -> ConfiguredDriver | None:
        """Return the configured driver of a hypervisor type such as ``KVM``.

        Returns None if the settings name no driver for the type.
        """
        return self._by_hypervisor.get(hypervisor.lower()) or self._by_hypervisor.get(DEFAULT)

    def configured_for(self, hypervisor: str) -> ConfiguredDriver:
        """Return the configured driver of a hypervisor type.

        Raises:
            NoDriverFor: the settings name no driver for the hypervisor type.
        """
        found = self.find(hypervisor)
        if found is None:
            raise NoDriverFor(hypervisor)
        return found

    def driver_for(self, hypervisor: str) -> HypervisorDriver:
        """Return the driver of a hypervisor type.

        The driver is created if it does not exist yet.

        Raises:
            NoDriverFor: the settings name no driver for the hypervisor type.
        """
        return self._driver(self.configured_for(hypervisor))

    def __iter__(self) -> Iterator[HypervisorDriver]:
        """Iterate over all drivers, each once. Drivers that do not exist yet are created."""
        return iter([self._driver(one) for one in {one.name: one for one in self._by_hypervisor.values()}.values()])

    def make_all(self) -> list[HypervisorDriver]:
        """Create all drivers now, and return them. If one of them fails, the others are closed."""
        with ExitStack() as stack:
            stack.callback(self.close)
            made = list(self)
            stack.pop_all()
        return made

    def close(self) -> None:
        """Close all created drivers, even if closing one of them fails."""
        with ExitStack() as stack:
            for driver in self._made.values():
                stack.callback(driver.close)

    def _driver(self, wanted: ConfiguredDriver) -> HypervisorDriver:
        made = self._made.get(wanted.name)
        if made is not None:
            return made
        with self._making:
            if wanted.name not in self._made:
                driver = wanted.make()
                if self._make_records is not None:
                    driver.use_records(self._make_records(lambda hypervisor: self.find(hypervisor) is wanted))
                self._made[wanted.name] = driver
            return self._made[wanted.name]


def configure_drivers(
    names: Mapping[str, str],
    options: Mapping[str, Mapping[str, Any]],
    make_records: MakeRecords | None = None,
) -> Drivers:
    """Return the drivers for the hypervisor types in ``names``, with their options.

    ``names`` maps hypervisor types, or DEFAULT, to names of drivers. Errors in settings are raised by this
    function. A driver connects to its hypervisor only after it is created.

    Raises:
        UnknownDriver: no driver with a name in ``names`` or ``options`` is installed.
        UnusableDriver: a driver cannot be imported, or is not a driver class.
        WrongDriverOptions: a driver's options are not as the driver declares them.
    """
    settings = {f"{TABLE}.{name}": name for name in options} | {
        f"drivers.{kind}": name for kind, name in names.items()
    }
    classes = {name: INSTALLED.find(name, setting) for setting, name in settings.items()}
    configured = {}
    for name in set(names.values()):
        read = read_options(name, classes[name].options_model, options.get(name, {}))
        make = partial(classes[name].from_options, read)
        known = classes[name].device_parameters
        configured[name] = ConfiguredDriver(name, classes[name].abilities, make, known)
    return Drivers({hypervisor: configured[name] for hypervisor, name in names.items()}, make_records)


def in_tree_drivers() -> list[str]:
    """Return the names of the drivers that come with the product."""
    return sorted(filter(_is_in_tree, (one.name for one in pkgutil.iter_modules(bulkdeploy.drivers.__path__))))


def in_tree_options(name: str) -> type[DriverOptions]:
    """Return the options of a driver that is part of the product, even if the driver itself cannot be imported."""
    options: type[DriverOptions] = importlib.import_module(f"{__package__}.{name}.options").OPTIONS
    return options


def _is_in_tree(name: str) -> bool:
    """Return whether this package contains a driver of this name. The driver is not imported."""
    return NAME.fullmatch(name) is not None and (Path(__file__).parent / name / "driver.py").is_file()


def _load_in_tree(name: str) -> type[HypervisorDriver]:
    driver: type[HypervisorDriver] = getattr(importlib.import_module(f"{__package__}.{name}.driver"), IN_TREE)
    return driver


INSTALLED = InstalledDrivers(HypervisorDriver, ENTRY_POINT_GROUP, in_tree_drivers, _load_in_tree)  # type: ignore[type-abstract]
"""The installed drivers of hypervisors. A driver from another package is imported only when it is named."""
