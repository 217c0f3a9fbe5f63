"""The form of placement rules: the hosts or clusters that a rule excludes or limits, and the reason.

A rule is one file in ``placement/rules`` with its ``RULE``; nothing else names it. A strategy may bring rules
of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bulkdeploy.placement.model import Flags, Ints, PlacementRequest, Purpose, ZoneSnapshot

Excludes: TypeAlias = Callable[[ZoneSnapshot, PlacementRequest], Flags | None]
"""Marks what is excluded, in the order of the snapshot's columns; None: the rule asks nothing of this request."""

Capacity: TypeAlias = Callable[[ZoneSnapshot, PlacementRequest], Ints | None]
"""How many of the request's VMs each takes, not cut to how many are asked for; None: any number."""

PLACING = frozenset({Purpose.START, Purpose.MOVE})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """A placement rule with up to four functions. A rule without a function is applied by the planner itself.

    Attributes:
        reason: its code, in plans and answers.
        text: what the code means, said of the host.
        remedy: what an operator can do about it.
        order: rules apply by it, lowest first; a host counts as excluded by the first that excludes it. What bounds
            clusters applies after all that is said of hosts, and after storage.
        purposes: what it holds for.
        lasting: what it excludes depends neither on sizes, counts and groups of the VMs that are asked for nor on
            those that are there: a batch of many sizes asks it once. One with ``host_capacity`` is asked each time.
        excludes_hosts, excludes_clusters: what takes no VM at all.
        host_capacity, cluster_capacity: how many VMs each takes; without any it is excluded.
    """

    reason: str
    text: str
    remedy: str
    order: int
    purposes: frozenset[Purpose] = PLACING
    lasting: bool = False
    excludes_hosts: Excludes | None = None
    excludes_clusters: Excludes | None = None
    host_capacity: Capacity | None = None
    cluster_capacity: Capacity | None = None
