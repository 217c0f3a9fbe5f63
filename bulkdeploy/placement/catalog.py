"""The available placement rules and strategies in their order. ``scheduling.catalog`` finds them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from bulkdeploy.domain.errors import ResourceUnavailable
from bulkdeploy.placement.model import PlacementRequest, Purpose
from bulkdeploy.placement.rule import Rule
from bulkdeploy.placement.strategy import Strategy

T = TypeVar("T")


class DuplicateName(Exception):
    """Raised when two strategies have the same planner, or two rules the same reason."""


class PlannerNotInstalled(ResourceUnavailable):
    """Raised when a service offering, call or setting names a deployment planner that is not installed."""

    def __init__(self, planner: str, installed: Sequence[str]) -> None:
        self.planner, self.installed = planner, tuple(installed)
        super().__init__(f"Deployment planner {planner} is not installed; installed are: {', '.join(installed)}")


class PlacementCatalog:
    """The placement rules by reason, and the strategies by planner.

    Raises:
        DuplicateName: two rules have the same reason, or two strategies the same planner.
    """

    def __init__(self, rules: Iterable[Rule], strategies: Iterable[Strategy]) -> None:
        in_order = sorted(strategies, key=lambda strategy: (strategy.order, strategy.planners))
        self._own = tuple(rules)
        self._strategies = _by_name((planner, each) for each in in_order for planner in each.planners)
        every = [*self._own, *(rule for strategy in in_order for rule in strategy.rules)]
        self._rules = _by_name((rule.reason, rule) for rule in sorted(every, key=_turn))
        self._chosen: dict[tuple[Purpose, str, str | None], tuple[Rule, ...]] = {}

    @property
    def planners(self) -> tuple[str, ...]:
        """The names of the planners, in order."""
        return tuple(self._strategies)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """All rules by reason, in the order in which they apply."""
        return self._rules

    def strategy(self, planner: str) -> Strategy:
        """Return the strategy that a planner's name chooses.

        Raises:
            PlannerNotInstalled: no strategy has this planner.
        """
        if planner not in self._strategies:
            raise PlannerNotInstalled(planner, self.planners)
        return self._strategies[planner]

    def rules_for(self, request: PlacementRequest) -> tuple[Rule, ...]:
        """Return the rules for the placement of a request, in the order in which they apply.

        Raises:
            PlannerNotInstalled: the request names a planner that is not installed.
        """
        key = (request.purpose, request.planner, request.offering_planner)
        if key not in self._chosen:
            planners = {request.planner, *([request.offering_planner] if request.offering_planner else ())}
            brought = {rule for planner in planners for rule in self.strategy(planner).rules}
            rules = (rule for rule in {*self._own, *brought} if request.purpose in rule.purposes)
            self._chosen[key] = tuple(sorted(rules, key=_turn))
        return self._chosen[key]


def _turn(rule: Rule) -> tuple[int, str]:
    return rule.order, rule.reason


def _by_name(pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, thing in pairs:
        if name in found:
            raise DuplicateName(f"{name!r} is declared twice: by {found[name]} and by {thing}")
        found[name] = thing
    return found
