"""Drivers as the synchronous half has them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from bulkdeploy.drivers.cloudstack.driver import CloudStackDriver
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostModel, NewHost
from bulkdeploy.drivers.registry import DEFAULT, ConfiguredDriver, Drivers
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.model import read_host


def always(driver: HypervisorDriver) -> Drivers:
    """This driver for every hypervisor type."""
    return Drivers(
        {DEFAULT: ConfiguredDriver("simulator", driver.abilities, lambda: driver, driver.device_parameters)}
    )


OF_HYPERVISORS = {"importUnmanagedInstance", "listStorageUnits", "listUnmanagedInstances"}
"""Commands that ask hypervisors first; their own tests have some."""


class _Nowhere:
    """A driver that reads off urls what hosts have, and may be asked for nothing that is done to VMs."""

    def __init__(self, driver: type[HypervisorDriver]) -> None:
        """Have the abilities of this class of drivers."""
        self.abilities = driver.abilities

    def admit_hosts(self, hosts: Sequence[NewHost], *, timeout_s: float) -> list[HostModel | DriverError]:
        """What the urls say."""
        del timeout_s
        return [read_host(host) for host in hosts]

    def answers(self, *arguments: Any, **named: Any) -> bool:
        """Every host does."""
        del arguments, named
        return True

    @property
    def program(self) -> Path:
        """A program that is never run: custom actions are its."""
        return Path("/srv/lamps")

    def ensure_overcommit(self, *arguments: Any, **named: Any) -> None:
        """Nothing to do."""

    def __getattr__(self, name: str) -> Any:
        """Complain."""
        raise AssertionError(f"somebody asked a hypervisor: {name}")


SIMULATED = Drivers(
    {
        DEFAULT: ConfiguredDriver(
            "simulator",
            SimulatorDriver.abilities,
            lambda: cast("HypervisorDriver", _Nowhere(SimulatorDriver)),
            SimulatorDriver.device_parameters,
        )
    }
)
"""Every hypervisor type has a driver that can do everything, behind which there is none."""


OF_CLOUDSTACK = Drivers(
    {
        DEFAULT: ConfiguredDriver(
            "cloudstack", CloudStackDriver.abilities, lambda: cast("HypervisorDriver", _Nowhere(CloudStackDriver))
        )
    }
)
"""Every hypervisor type is driven through a CloudStack, behind which there is none."""
