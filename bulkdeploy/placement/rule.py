"""The declaration of placement rules: the hosts or clusters that a rule excludes or limits, and the reason.

A rule is one file in ``placement/rules`` with its ``RULE``; no other module names it. A strategy may declare
further rules.
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
        reason: the code of the rule in plans and responses.
        text: the meaning of the code, as a statement about the excluded host.
        remedy: what an operator can do about it.
        order: the position in the order of rules, lowest first. A host counts as excluded by the first rule that
            excludes it. Limits of clusters apply after all rules about hosts, and after storage.
        purposes: the purposes of placements for which the rule applies.
        lasting: whether the excluded hosts do not depend on the sizes, counts and groups of the requested VMs, nor
            on existing VMs. Then the rule is evaluated once for a batch of many sizes, unless it has
            ``host_capacity``.
        excludes_hosts, excludes_clusters: return the hosts or clusters that accept no VM at all.
        host_capacity, cluster_capacity: return the number of VMs that each host or cluster accepts; with 0 it is
        excluded.
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
