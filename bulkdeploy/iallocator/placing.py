"""The search for the nodes of one instance (one file: the choices share caches).

A primary is planned on the cluster in its present state. A secondary is planned on the cluster as if the primary
had failed, so each node has enough memory for the failure of any one other node (N+1), and secondaries are spread
over the nodes. With the objective ``hbal``, rules exclude nodes and Ganeti's cluster score (``cluster_score``)
chooses among the others; if all nodes have exclusive storage, ``lost_allocations`` chooses nodes for new instances.
Among equal choices the last is taken, as in hail. With ``leastused``, the planner takes the least used node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.cluster_score import GroupScore
from bulkdeploy.iallocator.document import Instance
from bulkdeploy.iallocator.lost_allocations import placement_costs
from bulkdeploy.iallocator.refusal import Refusal, explain
from bulkdeploy.iallocator.restarting import restart_gap
from bulkdeploy.iallocator.rules import UNALLOCABLE, InstanceRules, Scope
from bulkdeploy.placement.capacity import measure_capacity
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.model import Flags, Ints, PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.planner import plan
from bulkdeploy.placement.strategy import Filling, OpenClusters, Strategy, one_after_the_other

PLANNER = "PreferredGroups"

HBAL, LEAST_USED = OBJECTIVES = ("hbal", "leastused")
"""The objectives that decide among suitable nodes."""

PRIMARIES = 48
"""The number of the best primaries in a group for which each secondary is tried."""

CHANCES = 32
"""The number of best choices for which N+1 is checked before the planner is used instead."""

LEAST_GAIN = 1e-9
"""The least decrease of the score for which a placed instance is moved."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The optional checks of a placement.

    Attributes:
        soft: whether N+1 of mirrored instances, CPU and spindle ratios, and exclusion tags are checked.
        capacity: whether the unmirrored instances of any failed node must be able to restart in its group.
        objective: one of OBJECTIVES.
    """

    soft: bool = True
    capacity: bool = True
    objective: str = HBAL


@dataclass(frozen=True, slots=True)
class _Choice:
    """Suitable nodes for an instance, with their group's rank and the cluster score after the placement."""

    rank: int
    score: float
    nodes: tuple[int, ...]


class Placing:
    """Finds nodes for instances on a cluster. The cluster is not changed."""

    def __init__(self, cluster: GanetiCluster, checks: Checks) -> None:
        self._cluster, self._checks = cluster, checks
        self._rules = InstanceRules(cluster)
        strategy = Strategy(planners=(PLANNER,), description="preferred groups first", filling=self._filling)
        self._primary = PlacementCatalog(self._rules.primary(soft=checks.soft), [strategy])
        self._secondary = PlacementCatalog(self._rules.secondary(soft=checks.soft), [strategy])
        self._secondary_without_memory = PlacementCatalog(
            self._rules.secondary(soft=checks.soft, with_memory=False), [strategy]
        )
        self._score = cache(lambda group: GroupScore(cluster, group))

    def improves(self, scope: Scope) -> bool:
        """Return whether moving placed instances can lower the cluster score.

        This is False for the objective ``leastused``, and if all nodes in the scope have exclusive storage.
        """
        return self._checks.objective == HBAL and not self._is_dedicated(scope)

    def total_score(self) -> float:
        """Return the sum of the cluster scores of all groups."""
        return sum(self._score(group).now() for group in range(len(self._cluster.groups)))

    def find(
        self, instance: Instance, scope: Scope, *, leaving: frozenset[int] = frozenset(), mirrored: bool
    ) -> list[int] | Refusal:
        """Return a primary node, and a secondary node if ``mirrored``, or why there are none.

        Nodes in ``leaving`` are not chosen.
        """
        if self._checks.objective == HBAL:
            if not instance.nodes and self._is_dedicated(scope):
                return self._cheapest(instance, scope, mirrored=mirrored) or self._refusal(instance, scope)
            for choice in self._best(instance, scope, leaving, mirrored=mirrored):
                if mirrored or not self._gap(instance, choice.nodes[0]):
                    return list(choice.nodes)
        avoided, first_refusal = leaving, None
        while True:
            primary = self.primary(instance, scope, leaving=avoided)
            if isinstance(primary, Refusal):
                return first_refusal or primary
            found = self._complete(instance, scope, primary, leaving, mirrored=mirrored)
            if not isinstance(found, Refusal):
                return found
            first_refusal = first_refusal or found
            avoided |= {primary}

    def primary(self, instance: Instance, scope: Scope, *, leaving: frozenset[int]) -> int | Refusal:
        """Return a node that can run an instance, or why there is none."""
        if self._checks.objective == HBAL:
            for choice in self._best(instance, scope, leaving, mirrored=False):
                return choice.nodes[0]
        snapshot = self._cluster.snapshot(with_reserve=self._checks.soft)
        return self._one(instance, scope, snapshot, self._primary, leaving)

    def secondary(
        self, instance: Instance, scope: Scope, primary: int, *, leaving: frozenset[int]
    ) -> int | Refusal:
        """Return a node in the primary's group for the secondary, or why there is none.

        A node in another location is preferred.
        """
        cluster = self._cluster
        scope = replace(scope, groups=frozenset({int(cluster.group_of[primary])}))
        leaving = leaving | {primary}
        locations = cluster.locations[primary]
        near = {at for at, tags in enumerate(cluster.locations) if tags & locations}
        if self._checks.objective == HBAL:
            scores = self._score(int(cluster.group_of[primary]))
            if primary in scores.nodes:
                (line,) = scores.of_pairs(instance, np.searchsorted(scores.nodes, [primary]))
                usable = self._secondaries(instance, scope, leaving)[scores.nodes]
                line[~(usable & self._has_memory(instance, np.array([primary]), scores.nodes)[0])] = np.inf
                if np.isfinite(line).any():
                    return int(scores.nodes[line.argmin()])
        snapshot = cluster.snapshot_without(primary)
        if near - leaving:
            found = self._one(instance, scope, snapshot, self._secondary, leaving | near)
            if not isinstance(found, Refusal):
                return found
        return self._one(instance, scope, snapshot, self._secondary, leaving)

    def better(self, instance: Instance, scope: Scope, nodes: list[int], *, mirrored: bool) -> list[int]:
        """Return nodes in the same group that lower the cluster's score, or the given nodes if there are none.

        The instance must not be counted as placed during the call.
        """
        scope = replace(scope, groups=frozenset({int(self._cluster.group_of[nodes[0]])}))
        now = self._score_of(instance, nodes)
        for choice in self._best(instance, scope, frozenset(), mirrored=mirrored):
            if choice.score > now - LEAST_GAIN:
                break
            if mirrored or not self._gap(instance, choice.nodes[0]):
                return list(choice.nodes)
        return nodes

    def _score_of(self, instance: Instance, nodes: list[int]) -> float:
        scores = self._score(int(self._cluster.group_of[nodes[0]]))
        at = np.searchsorted(scores.nodes, nodes)
        if len(nodes) > 1:
            return float(scores.of_pairs(instance, at[:1])[0, at[1]])
        return float(scores.of_primaries(instance)[at[0]])

    def _best(
        self, instance: Instance, scope: Scope, leaving: frozenset[int], *, mirrored: bool
    ) -> Iterator[_Choice]:
        """Yield the best choices by the cluster score. Choices in preferred groups come first."""
        snapshot = self._cluster.snapshot(with_reserve=self._checks.soft)
        usable = self._usable(instance, scope, leaving, snapshot, self._primary)
        if not usable.any():
            return
        secondaries = self._secondaries(instance, scope, leaving) if mirrored else usable
        choices: list[_Choice] = []
        for group in np.unique(self._cluster.group_of[usable]).tolist():
            choices += self._best_of_group(instance, group, usable, secondaries, mirrored=mirrored)
        yield from sorted(choices, key=lambda choice: (choice.rank, choice.score))[:CHANCES]

    def _best_of_group(
        self, instance: Instance, group: int, usable: Flags, secondaries: Flags, *, mirrored: bool
    ) -> Iterator[_Choice]:
        scores, rank = self._score(group), int(self._cluster.policy_rank[group])
        nodes = scores.nodes
        alone = scores.of_primaries(instance)
        alone[~usable[nodes]] = np.inf
        order = np.lexsort((-nodes, alone))[: np.isfinite(alone).sum()]
        if not mirrored:
            for at in order[:CHANCES].tolist():
                yield _Choice(rank, float(alone[at]), (int(nodes[at]),))
            return
        for part in (
            order[:PRIMARIES],
            order[PRIMARIES:],
        ):  # the second part only if no node of the first part has a secondary
            if not len(part):
                return
            pairs = scores.of_pairs(instance, part)
            fits = secondaries[nodes] & self._has_memory(instance, nodes[part], nodes)
            fits[np.arange(len(part)), part] = False
            pairs[~fits] = np.inf
            least = float(pairs.min())
            if np.isfinite(least):
                chosen = max(
                    (int(nodes[part[first]]), int(nodes[second])) for first, second in np.argwhere(pairs == least)
                )
                yield _Choice(rank, least, chosen)
                return

    def _is_dedicated(self, scope: Scope) -> bool:
        """Return whether all nodes in the allowed groups have exclusive storage."""
        cluster = self._cluster
        allowed = cluster.policy_rank != UNALLOCABLE
        if scope.groups is not None:
            allowed = np.isin(np.arange(len(cluster.groups)), list(scope.groups))
        return bool(cluster.exclusive[allowed[cluster.group_of]].all())

    def _cheapest(self, instance: Instance, scope: Scope, *, mirrored: bool) -> list[int] | None:
        """Return the nodes where a new instance costs the fewest later allocations, or None if there are none."""
        cluster = self._cluster
        snapshot = cluster.snapshot(with_reserve=self._checks.soft)
        usable = self._usable(instance, scope, frozenset(), snapshot, self._primary)
        secondaries = self._secondaries(instance, scope, frozenset()) if mirrored else usable
        best: tuple[tuple[int, ...], list[int]] | None = None
        for group in np.unique(cluster.group_of[usable]).tolist():
            primaries = np.flatnonzero(usable & (cluster.group_of == group))
            pairs = primaries[:, np.newaxis]
            if mirrored:
                others = np.flatnonzero(secondaries & (cluster.group_of == group))
                fits = self._has_memory(instance, primaries, others) & (pairs != others)
                first, second = np.nonzero(fits)
                pairs = np.column_stack((primaries[first], others[second]))
            for cost, nodes in zip(
                placement_costs(cluster, instance, group, pairs).tolist(), pairs.tolist(), strict=True
            ):
                ranked = (int(cluster.policy_rank[group]), *cost)
                if best is None or ranked <= best[0]:
                    best = ranked, nodes
        return best[1] if best else None

    def _refusal(self, instance: Instance, scope: Scope) -> Refusal:
        snapshot = self._cluster.snapshot(with_reserve=self._checks.soft)
        self._rules.instance, self._rules.scope = instance, scope
        request = self._request(instance, frozenset())
        return Refusal(instance, explain(self._cluster, instance, snapshot, request, self._primary))

    def _has_memory(self, instance: Instance, primaries: Ints, secondaries: Ints) -> Flags:
        """Return whether each secondary has memory for the instances of each primary and the new instance.

        This is a soft rule: without ``soft``, all values are True.
        """
        if not self._checks.soft or not instance.uses_memory:
            return np.ones((len(primaries), len(secondaries)), dtype=bool)
        cluster = self._cluster
        fits: Flags = (
            cluster.free_memory[secondaries] > cluster.peers[np.ix_(primaries, secondaries)] + instance.memory
        )
        return fits

    def _secondaries(self, instance: Instance, scope: Scope, leaving: frozenset[int]) -> Flags:
        """Return which nodes can be the secondary of the instance by all rules except those about memory."""
        snapshot = self._cluster.snapshot(with_reserve=False)
        return self._usable(instance, scope, leaving, snapshot, self._secondary_without_memory)

    def _usable(
        self,
        instance: Instance,
        scope: Scope,
        leaving: frozenset[int],
        snapshot: ZoneSnapshot,
        catalog: PlacementCatalog,
    ) -> Flags:
        """Return which nodes can take the instance by the rules of ``catalog``."""
        self._rules.instance, self._rules.scope = instance, scope
        found = measure_capacity(snapshot, self._request(instance, leaving), catalog)
        usable: Flags = np.zeros(len(self._cluster.nodes), dtype=bool)
        usable[found.candidates.at[found.of_candidates() > 0]] = True
        return usable

    def runs(self, instance: Instance, node: int) -> Refusal | None:
        """Return why a node cannot run an instance, or None if it can."""
        scope = Scope(frozenset({int(self._cluster.group_of[node])}), frozenset({node}))
        found = self.primary(instance, scope, leaving=frozenset())
        return found if isinstance(found, Refusal) else None

    def _complete(
        self, instance: Instance, scope: Scope, primary: int, leaving: frozenset[int], *, mirrored: bool
    ) -> list[int] | Refusal:
        if mirrored:
            secondary = self.secondary(instance, scope, primary, leaving=leaving)
            return secondary if isinstance(secondary, Refusal) else [primary, secondary]
        gap = self._gap(instance, primary)
        return [primary] if gap is None else Refusal(instance, gap)

    def _gap(self, instance: Instance, primary: int) -> str | None:
        """Return why instances of some node could not be restarted after this placement, or None if all could."""
        if not self._checks.capacity or not instance.uses_memory:
            return None
        return restart_gap(self._cluster, instance, primary)

    def _one(
        self,
        instance: Instance,
        scope: Scope,
        snapshot: ZoneSnapshot,
        catalog: PlacementCatalog,
        leaving: frozenset[int],
    ) -> int | Refusal:
        self._rules.instance, self._rules.scope = instance, scope
        request = self._request(instance, leaving)
        made = plan(snapshot, request, catalog)
        if made.placed:
            return int(made.host_ids[0])
        return Refusal(instance, explain(self._cluster, instance, snapshot, request, catalog))

    @staticmethod
    def _request(instance: Instance, leaving: frozenset[int]) -> PlacementRequest:
        return PlacementRequest(
            count=1,
            cpu_number=instance.vcpus,
            cpu_mhz=1,
            memory_mib=instance.memory if instance.uses_memory else 0,
            hypervisor="",
            avoid_host_ids=leaving,
            planner=PLANNER,
            host_algorithm="leastused",
        )

    def _filling(self, clusters: OpenClusters, *, pods_first: bool) -> Filling:
        del pods_first
        return one_after_the_other(
            np.lexsort((clusters.id, clusters.cpu_share, self._cluster.policy_rank[clusters.id]))
        )
