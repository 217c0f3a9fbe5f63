"""Which driver speaks to which hypervisor type.

In-tree drivers are named here. An out-of-tree one joins by an entry point in the group
``bulkdeploy.drivers``: its name is the driver's, its object a ``DriverFactory``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.metadata import entry_points
from threading import Lock
from typing import Any, Protocol

from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.simulator import SimulatorDriver

ENTRY_POINT_GROUP = "bulkdeploy.drivers"

DEFAULT = "default"
"""Stands for every hypervisor type that is not named."""

DriverOptions = Mapping[str, Any]
"""What a driver needs to know, by names of its own."""

DriverFactory = Callable[[DriverOptions], HypervisorDriver]


class UnknownDriver(LookupError):
    """Settings name a driver that nobody provides."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        super().__init__(f"There is no driver named {name!r}; installed are: {', '.join(known)}")


class NoDriverFor(LookupError):
    """Settings give a hypervisor type no driver, and there is no default."""

    def __init__(self, hypervisor: str) -> None:
        self.hypervisor = hypervisor
        super().__init__(
            f"No driver is set for hypervisor type {hypervisor!r}: add it, or {DEFAULT!r}, to the setting drivers"
        )


class FindsDrivers(Protocol):
    """Knows the driver of a hypervisor type."""

    def driver_for(self, hypervisor: str) -> HypervisorDriver:
        """The driver of a hypervisor type such as ``KVM``.

        Raises:
            NoDriverFor: there is none.
        """


class Drivers:
    """The drivers of a process, one object per driver, found by hypervisor type in any case."""

    def __init__(self, by_hypervisor: Mapping[str, HypervisorDriver]) -> None:
        self._by_hypervisor = {hypervisor.lower(): driver for hypervisor, driver in by_hypervisor.items()}

    def driver_for(self, hypervisor: str) -> HypervisorDriver:
        """The driver of a hypervisor type such as ``KVM``.

        Raises:
            NoDriverFor: there is none.
        """
        driver = self._by_hypervisor.get(hypervisor.lower()) or self._by_hypervisor.get(DEFAULT)
        if driver is None:
            raise NoDriverFor(hypervisor)
        return driver

    def __iter__(self) -> Iterator[HypervisorDriver]:
        """Every driver once, for those who look at everything there is."""
        return iter({id(driver): driver for driver in self._by_hypervisor.values()}.values())

    def close(self) -> None:
        """Close every driver, also when one of them fails to."""
        with ExitStack() as stack:
            for driver in self:
                stack.callback(driver.close)


class LazyDrivers:
    """Drivers that are made when one is first asked for: most API processes never add a host."""

    def __init__(self, build: Callable[[], Drivers]) -> None:
        self._build, self._lock = build, Lock()
        self._made: Drivers | None = None

    def driver_for(self, hypervisor: str) -> HypervisorDriver:
        """See FindsDrivers."""
        with self._lock:
            if self._made is None:
                self._made = self._build()
        return self._made.driver_for(hypervisor)


def build_drivers(names: Mapping[str, str], options: Mapping[str, DriverOptions]) -> Drivers:
    """Make each driver that ``names`` (hypervisor type, or DEFAULT, to driver) mentions, once.

    ``options`` are by driver name. If one cannot be made, those made before are closed.

    Raises:
        UnknownDriver: a name that nobody provides.
    """
    made: dict[str, HypervisorDriver] = {}
    with ExitStack() as stack:
        for name in sorted(set(names.values())):
            made[name] = _factory(name)(options.get(name, {}))
            stack.callback(made[name].close)
        stack.pop_all()
    return Drivers({hypervisor: made[name] for hypervisor, name in names.items()})


def _factory(name: str) -> DriverFactory:
    """In-tree drivers win: nobody replaces one by accident. Others are imported only when named."""
    in_tree: dict[str, DriverFactory] = {"simulator": _simulator}
    if name in in_tree:
        return in_tree[name]
    points = entry_points(group=ENTRY_POINT_GROUP)
    if name not in points.names:
        raise UnknownDriver(name, sorted({*in_tree, *points.names}))
    factory: DriverFactory = points[name].load()
    return factory


def _simulator(options: DriverOptions) -> HypervisorDriver:
    """Options: ``url``, and any other argument of SimulatorDriver."""
    return SimulatorDriver(**options)
