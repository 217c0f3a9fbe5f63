"""Drivers as the synchronous half has them."""

from typing import Any, cast

from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.registry import DEFAULT, ConfiguredDriver, Drivers
from bulkdeploy.drivers.simulator import SimulatorDriver


def always(driver: HypervisorDriver) -> Drivers:
    """This driver for every hypervisor type."""
    return Drivers({DEFAULT: ConfiguredDriver("simulator", driver.abilities, lambda: driver)})


class _Nowhere:
    """A driver that has nothing to do when hosts may promise more, and may be asked for nothing else."""

    def ensure_overcommit(self, *arguments: Any, **named: Any) -> None:
        """Nothing to do."""

    def __getattr__(self, name: str) -> Any:
        """Complain."""
        raise AssertionError(f"somebody asked a hypervisor: {name}")


SIMULATED = Drivers(
    {
        DEFAULT: ConfiguredDriver(
            "simulator", SimulatorDriver.abilities, lambda: cast("HypervisorDriver", _Nowhere())
        )
    }
)
"""Every hypervisor type has a driver that can do everything, behind which there is none."""
