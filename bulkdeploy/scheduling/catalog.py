"""The placement rules and strategies of this installation, and the names by which calls can choose them.

A rule is a module of ``placement/rules`` with a ``RULE``, a strategy one of ``placement/strategies`` with a
``STRATEGY``. Strategies of other distributions join by an entry point in the group ``bulkdeploy.strategies`` whose
object is a ``Strategy``. What cannot be loaded, or is there twice, keeps the process from starting.
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
    """An entry point of the group names something else than a strategy."""


@cache
def placement_catalog() -> PlacementCatalog:
    """Return all rules and strategies, found when first asked for.

    Raises:
        DuplicateName: two have one name.
        NotAStrategy: an entry point that is none.
    """
    found = [each.STRATEGY for each in _modules(strategies)]
    return PlacementCatalog([each.RULE for each in _modules(rules)], [*found, *_installed()])


def planners() -> tuple[str, ...]:
    """Return the names that offerings, calls and ``vm.deployment.planner`` may choose, in order."""
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
