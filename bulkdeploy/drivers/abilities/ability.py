"""The base class of all abilities. A driver whose hypervisor has an ability inherits the ability's class."""

from abc import ABC
from typing import ClassVar, Protocol, Self, cast

from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.hosts import HostAddress


class Ability(ABC):
    """An optional ability of a hypervisor, in addition to running, stopping and removing guests.

    A driver inherits the classes of its abilities, before ``HypervisorDriver``, and implements their methods. API
    calls that need an ability which the driver lacks are rejected before a job is created (``services.abilities``).

    Attributes:
        ability_name: the name in errors and in listHypervisorCapabilities. A class that sets no name of its own is
            only the shared part of several abilities.
    """

    ability_name: ClassVar[str]

    @classmethod
    def of(cls, driver: "DriverWithAbilities", step: str = "look", host: HostAddress | None = None) -> Self:
        """Return the driver as an object with this ability.

        ``step`` and ``host`` are the step and the host of the call that needs the ability, for the error.

        Raises:
            DriverError: the driver does not have the ability.
        """
        if not any(issubclass(ability, cls) for ability in driver.abilities):
            name = ANY_HOST if host is None else host.name
            raise DriverError(
                step, name, f"the driver of the hypervisor does not implement {cls.__name__}", transient=False
            )
        return cast("Self", driver)


class DriverWithAbilities(Protocol):
    """The attribute of drivers that this module uses."""

    @property
    def abilities(self) -> frozenset[type[Ability]]:
        """The abilities of the driver."""


def abilities_of(driver: type) -> frozenset[type[Ability]]:
    """Return the abilities that the class of a driver inherits."""
    return frozenset(one for one in driver.__mro__ if issubclass(one, Ability) and "ability_name" in vars(one))


def names_of(abilities: frozenset[type[Ability]]) -> list[str]:
    """Return the names of abilities in alphabetical order."""
    return sorted(ability.ability_name for ability in abilities)
