"""A driver has the abilities whose classes it inherits. A new ability is one file and the drivers that have it."""

import importlib
import pkgutil
from abc import abstractmethod
from pathlib import Path
from uuid import UUID

import pytest

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.drivers import abilities
from bulkdeploy.drivers.abilities.ability import Ability, names_of
from bulkdeploy.drivers.abilities.devices import DeviceChanges, HotPlugNics
from bulkdeploy.drivers.abilities.guest_agents import GuestAgents
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.registry import ConfiguredDriver, Drivers
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.abilities import has_ability, require_ability

FOLDER = Path(abilities.__path__[0])
MODULES = {one.name for one in pkgutil.iter_modules(abilities.__path__)} - {"ability"}
UNTESTED = {"custom_actions", "guest_agents", "starts"}
"""Abilities whose effect is inside guests or in programs, which no suite can look into."""


class Painting(Ability):
    """The ability to paint a host, which no file of the product knows."""

    ability_name = "painting of hosts"

    @abstractmethod
    def ensure_painted(self, colour: str) -> str:
        """Paint a host."""


def test_abilities_come_before_the_interface() -> None:
    """Else methods of the interface would count as the ability's own."""
    with pytest.raises(TypeError, match="Late must name GuestAgents before HypervisorDriver"):
        type("Late", (HypervisorDriver, GuestAgents), {})


class Painter(Painting, SimulatorDriver):
    """A driver that paints hosts in addition to what its parent does."""

    def __init__(self) -> None:
        """No simulator is needed."""

    def ensure_painted(self, colour: str) -> str:
        """See Painting."""
        return f"painted {colour}"


def configured(driver: type[SimulatorDriver]) -> Drivers:
    """A driver for KVM that is never made."""

    def never() -> SimulatorDriver:
        raise AssertionError("the test connected to a hypervisor")

    return Drivers({"KVM": ConfiguredDriver(driver.__name__, driver.abilities, never)})


def test_a_new_ability_is_one_class_and_the_driver_that_inherits_it() -> None:
    """The class alone lets the API accept what needs it, shows its name, and gives the driver its call."""
    assert Painter.abilities == SimulatorDriver.abilities | {Painting}
    assert set(names_of(Painter.abilities)) - set(names_of(SimulatorDriver.abilities)) == {"painting of hosts"}
    assert has_ability(configured(Painter), "KVM", Painting)
    assert not has_ability(configured(SimulatorDriver), "KVM", Painting)
    with pytest.raises(InvalidParameter, match="hypervisor KVM does not support painting of hosts"):
        require_ability(configured(SimulatorDriver), "KVM", Painting, "colour", "red")
    assert Painting.of(Painter()).ensure_painted("red") == "painted red"


def test_a_call_that_a_driver_lacks_is_an_error_that_names_it() -> None:
    """A job may reach a driver without its ability if the settings changed meanwhile."""

    class Still(SimulatorDriver):
        """A simulator without live migration."""

        def __init__(self) -> None:
            """No simulator is needed."""

    Still.abilities = Still.abilities - {LiveMigration}
    host = HostAddress(UUID(int=1), "left", "192.0.2.1", "KVM")
    with pytest.raises(DriverError, match=r"on host left: .* does not implement LiveMigration") as refused:
        LiveMigration.of(Still(), "migrate", host)
    assert not refused.value.may_pass
    with pytest.raises(DriverError, match="on host any host"):
        LiveMigration.of(Still())


def test_a_shared_part_belongs_to_whoever_has_one_of_its_abilities() -> None:
    """It is no ability by itself, so no list shows it."""

    class Plugging(SimulatorDriver):
        """A simulator that can plug NICs alone."""

        def __init__(self) -> None:
            """No simulator is needed."""

    Plugging.abilities = frozenset({HotPlugNics})
    driver = Plugging()
    assert DeviceChanges not in SimulatorDriver.abilities
    assert DeviceChanges.of(driver) is driver


def test_abilities_are_not_declared() -> None:
    """The attribute is derived, and a class that sets it is told what to do instead."""
    with pytest.raises(TypeError, match=r"Old sets abilities. .*docs/reference/drivers\.md"):
        type("Old", (SimulatorDriver,), {"abilities": frozenset({"live migration"})})


def test_every_ability_has_a_name_of_its_own_and_a_suite_in_a_file_of_the_same_name() -> None:
    """Names are unique, and each module has its suite of the contract or stands in UNTESTED."""
    found = [
        one
        for name in MODULES
        for one in vars(importlib.import_module(f"{abilities.__name__}.{name}")).values()
        if isinstance(one, type) and issubclass(one, Ability) and "ability_name" in vars(one)
    ]
    assert len(names_of(frozenset(found))) == len(set(names_of(frozenset(found)))) >= len(MODULES)
    suites = {one.name for one in pkgutil.iter_modules([str(FOLDER.parent / "contract_suites")])}
    assert MODULES - suites == UNTESTED
