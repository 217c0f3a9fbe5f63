"""The placement rules and strategies of this installation, and the names by which calls can choose them.

A rule is a module of ``placement/rules`` with a ``RULE``, and a strategy a module of ``placement/strategies`` with
a ``STRATEGY``. Other distributions add strategies by an entry point in the group ``bulkdeploy.strategies`` whose
object is a ``Strategy``. If a strategy cannot be loaded, or if a name is used twice, the process does not start.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from bulkdeploy.domain.configuration import Setting
from bulkdeploy.placement import rules, strategies
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.hosts import HOST_ALGORITHMS
from bulkdeploy.placement.strategy import Strategy
from bulkdeploy.store.configuration.cloudstack_settings import all_settings

ENTRY_POINT_GROUP = "bulkdeploy.strategies"


class NotAStrategy(TypeError):
    """Raised when an entry point of the group ``bulkdeploy.strategies`` does not name a ``Strategy``."""


@cache
def placement_catalog() -> PlacementCatalog:
    """Return the catalog of all rules and strategies, which are searched at the first call.

    Raises:
        DuplicateName: two rules or strategies have the same name.
        NotAStrategy: an entry point does not name a strategy.
    """
    found = [each.STRATEGY for each in _modules(strategies)]
    return PlacementCatalog([each.RULE for each in _modules(rules)], [*found, *_installed()])


def planners() -> tuple[str, ...]:
    """Return the planner names that offerings, calls and ``vm.deployment.planner`` may use, in order."""
    return placement_catalog().planners


@cache
def settings_by_name() -> Mapping[str, Setting]:
    """Return all settings by name.

    Settings that select a planner or algorithm have the installed ones as choices.
    """
    choices = {"vm.deployment.planner": planners(), "vm.allocation.algorithm": tuple(HOST_ALGORITHMS)}
    return {one.name: replace(one, choices=choices.get(one.name, one.choices)) for one in all_settings().values()}


def _modules(package: ModuleType) -> Iterator[Any]:
    for module in iter_modules(package.__path__):
        yield import_module(f"{package.__name__}.{module.name}")


def _installed() -> Iterator[Strategy]:
    for point in entry_points(group=ENTRY_POINT_GROUP):
        loaded = point.load()
        if not isinstance(loaded, Strategy):
            raise NotAStrategy(f"entry point {point.name} of {ENTRY_POINT_GROUP} is no Strategy: {point.value}")
        yield loaded
