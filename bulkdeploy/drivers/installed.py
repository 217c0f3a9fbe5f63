"""The installed drivers of one kind: built-in drivers, and drivers that other packages add by entry points."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from inspect import isabstract
from typing import Any, Generic, TypeVar

from bulkdeploy.drivers.options import DriverSettingError

D = TypeVar("D")


class UnknownDriver(DriverSettingError):
    """Raised if settings or a call name a driver that is not installed."""

    def __init__(self, setting: str, name: str, known: list[str]) -> None:
        self.setting, self.name, self.known = setting, name, known
        super().__init__(f"{setting}: there is no driver named {name!r}; installed are: {', '.join(known)}")


class UnusableDriver(DriverSettingError):
    """Raised if an installed driver cannot be imported or is not a valid driver class."""

    def __init__(self, setting: str, name: str, why: str) -> None:
        self.setting, self.name = setting, name
        super().__init__(f"{setting}: driver {name!r} cannot be used: {why}")


@dataclass(frozen=True, slots=True)
class InstalledDrivers(Generic[D]):
    """The installed drivers of one kind.

    An entry point cannot replace a built-in driver of the same name.

    Attributes:
        driver: the base class of all drivers of this kind.
        entry_point_group: the group of entry points that adds drivers: each has the driver's name and its class.
        names_in_tree: a function that returns the names of the built-in drivers.
        load_from_tree: a function that imports the class of a built-in driver.
    """

    driver: type[D]
    entry_point_group: str
    names_in_tree: Callable[[], Iterable[str]]
    load_from_tree: Callable[[str], Any]

    def names(self) -> list[str]:
        """Return the names of all installed drivers, in alphabetical order."""
        return sorted({*self.names_in_tree(), *entry_points(group=self.entry_point_group).names})

    def has(self, name: str) -> bool:
        """Return True if a driver of this name is installed."""
        return name in self.names_in_tree() or name in entry_points(group=self.entry_point_group).names

    def find(self, name: str, setting: str) -> type[D]:
        """Import and return the class of a driver.

        ``setting`` is the name of the setting or parameter that contains the driver's name, for error messages.

        Raises:
            UnknownDriver: no driver of this name is installed.
            UnusableDriver: the driver cannot be imported, is not a driver class, or lacks a required method.
        """
        try:
            found = self._load(name)
        except (ImportError, AttributeError, TypeError) as error:
            raise UnusableDriver(setting, name, f"{type(error).__name__}: {error}{_remedy(error)}") from error
        if found is None:
            raise UnknownDriver(setting, name, self.names())
        if not (isinstance(found, type) and issubclass(found, self.driver)):
            raise UnusableDriver(setting, name, f"{found!r} is no subclass of {self.driver.__name__}")
        if isabstract(found):
            missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
            raise UnusableDriver(setting, name, f"{found.__name__} does not implement {missing}")
        return found

    def _load(self, name: str) -> Any:
        if name in self.names_in_tree():
            return self.load_from_tree(name)
        points = entry_points(group=self.entry_point_group)
        return points[name].load() if name in points.names else None


def _remedy(error: Exception) -> str:
    """Return a hint for the error message if a driver imports names that this release does not have.

    Returns an empty text for other errors.
    """
    is_of_product = isinstance(error, ImportError) and (error.name or "").startswith(__package__)
    return ". CHANGELOG.md lists what drivers must change for this release" if is_of_product else ""
