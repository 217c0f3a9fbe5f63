"""Finds nodes for one instance at a time, with the planner that places virtual machines.

A primary is planned on the cluster as it is, a secondary on the cluster as it would be if that primary had failed:
so each node keeps the memory that the failure of any one other node would bring (N+1), and secondaries are spread
by what they would have to run.
"""

from dataclasses import dataclass, replace

import numpy as np

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.document import Instance
from bulkdeploy.iallocator.refusal import Refusal, explain
from bulkdeploy.iallocator.restarting import restart_gap
from bulkdeploy.iallocator.rules import InstanceRules, Scope
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.model import PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.planner import plan
from bulkdeploy.placement.strategy import Filling, OpenClusters, Strategy, one_after_the_other

PLANNER = "PreferredGroups"


@dataclass(frozen=True, slots=True)
class Checks:
    """What is checked beyond what never fits.

    Attributes:
        soft: N+1 of mirrored instances, CPU and spindle ratios, exclusion tags.
        capacity: that the instances of any node that are not mirrored could be restarted in its group.
    """

    soft: bool = True
    capacity: bool = True


class Placing:
    """Places instances on a cluster, one after the other."""

    def __init__(self, cluster: GanetiCluster, checks: Checks) -> None:
        self._cluster, self._checks = cluster, checks
        self._rules = InstanceRules(cluster)
        strategy = Strategy(planners=(PLANNER,), description="preferred groups first", filling=self._filling)
        self._primary = PlacementCatalog(self._rules.primary(soft=checks.soft), [strategy])
        self._secondary = PlacementCatalog(self._rules.secondary(soft=checks.soft), [strategy])
        self._locations = [
            frozenset(tag for tag in node.tags if tag.startswith(cluster.document.location_prefixes))
            for node in cluster.nodes
        ]

    def find(
        self, instance: Instance, scope: Scope, *, leaving: frozenset[int] = frozenset(), mirrored: bool
    ) -> list[int] | Refusal:
        """A primary, and a secondary if ``mirrored``; the cluster stays as it is."""
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
        """A node to run an instance."""
        snapshot = self._cluster.snapshot(with_reserve=self._checks.soft)
        return self._one(instance, scope, snapshot, self._primary, leaving)

    def secondary(
        self, instance: Instance, scope: Scope, primary: int, *, leaving: frozenset[int]
    ) -> int | Refusal:
        """A node of its group to mirror what runs on ``primary``; in another location if there is one."""
        cluster = self._cluster
        scope = replace(scope, groups=frozenset({int(cluster.group_of[primary])}))
        snapshot = cluster.snapshot_without(primary)
        if self._locations[primary]:
            near = {at for at, tags in enumerate(self._locations) if tags & self._locations[primary]}
            found = self._one(instance, scope, snapshot, self._secondary, leaving | {primary} | near)
            if not isinstance(found, Refusal):
                return found
        return self._one(instance, scope, snapshot, self._secondary, leaving | {primary})

    def runs(self, instance: Instance, node: int) -> Refusal | None:
        """Why a node cannot run an instance; None: it can."""
        scope = Scope(frozenset({int(self._cluster.group_of[node])}), frozenset({node}))
        found = self.primary(instance, scope, leaving=frozenset())
        return found if isinstance(found, Refusal) else None

    def _complete(
        self, instance: Instance, scope: Scope, primary: int, leaving: frozenset[int], *, mirrored: bool
    ) -> list[int] | Refusal:
        if mirrored:
            secondary = self.secondary(instance, scope, primary, leaving=leaving)
            return secondary if isinstance(secondary, Refusal) else [primary, secondary]
        gap = None
        if self._checks.capacity and instance.uses_memory:
            gap = restart_gap(self._cluster, instance, primary)
        return [primary] if gap is None else Refusal(instance, gap)

    def _one(
        self,
        instance: Instance,
        scope: Scope,
        snapshot: ZoneSnapshot,
        catalog: PlacementCatalog,
        leaving: frozenset[int],
    ) -> int | Refusal:
        self._rules.instance, self._rules.scope = instance, scope
        request = PlacementRequest(
            count=1,
            cpu_number=instance.vcpus,
            cpu_mhz=1,
            memory_mib=instance.memory if instance.uses_memory else 0,
            hypervisor="",
            avoid_host_ids=leaving,
            planner=PLANNER,
            host_algorithm="leastused",
        )
        made = plan(snapshot, request, catalog)
        if made.placed:
            return int(made.host_ids[0])
        return Refusal(instance, explain(self._cluster, instance, snapshot, request, catalog))

    def _filling(self, clusters: OpenClusters, *, pods_first: bool) -> Filling:
        del pods_first
        return one_after_the_other(
            np.lexsort((clusters.id, clusters.cpu_share, self._cluster.policy_rank[clusters.id]))
        )
