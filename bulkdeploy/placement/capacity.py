"""The number of VMs that each cluster can take.

It is the capacity of the cluster's candidate hosts, limited by storage and by the cluster's own rules. The capacity
is never cut to the requested number of VMs, so that the order among clusters does not depend on how a number of VMs
is divided into calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bulkdeploy.domain.infrastructure.topology import StorageType
from bulkdeploy.placement.affinity_members import needs_one_host
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.fitting import ENDLESS
from bulkdeploy.placement.host_filter import HostFilter
from bulkdeploy.placement.hosts import CandidateHosts
from bulkdeploy.placement.model import Flags, HostAnswer, Ints, PlacementRequest, ZoneSnapshot, total
from bulkdeploy.placement.rule import Rule
from bulkdeploy.placement.rules import affinity, out_of_scope, storage
from bulkdeploy.placement.storage.packing import OneDiskPacking, Packing, pack
from bulkdeploy.placement.storage.pools import PoolTable, Volumes, local_pools, rows_of
from bulkdeploy.placement.storage.shared_storage import SharedStorage, shared_storage


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The pools of the candidate hosts' own disks (a row per host), and the order in which they are filled."""

    volumes: Volumes
    table: PoolTable
    packing: Packing | OneDiskPacking

    def pools_for(self, vms: Ints) -> Ints:
        """Return the position of the pool of each disk if each host gets the number of VMs in ``vms``.

        The result has one row per VM, ordered by host, and one column per disk.
        """
        row = np.repeat(np.arange(len(vms), dtype=np.int64), vms)
        return self.table.pool[row[:, np.newaxis], self.packing.columns(vms)]


@dataclass(frozen=True, slots=True)
class Capacity:
    """The number of VMs of a request that hosts and clusters can take. Clusters are numbered in order of their ids.

    ``order`` has the positions of the clusters in the columns. ``clusters`` has the number of VMs per cluster if
    zone-wide storage were unlimited. ``alone`` has the number with the actual zone-wide storage, if no other
    cluster used it. Each VM in a cluster lowers its number by exactly one.
    """

    hosts: HostFilter
    order: Ints
    candidates: CandidateHosts
    clusters: Ints
    alone: Ints
    local: LocalStorage | None
    shared: SharedStorage | None

    def of_candidates(self) -> Ints:
        """Return the number of VMs that each candidate host can take if no other host takes any."""
        return np.minimum(self.candidates.capacity, self.alone[self.candidates.cluster])


def measure_capacity(snapshot: ZoneSnapshot, request: PlacementRequest, catalog: PlacementCatalog) -> Capacity:
    """Apply every rule in order, and count the VMs that the remaining hosts and pools can take.

    Raises:
        PlannerNotInstalled: the request names a planner that is not installed.
    """
    rules = catalog.rules_for(request)
    hosts = HostFilter(rules, snapshot.hosts.cluster)
    disks = request.disks if storage.RULE in rules else ()
    per_host = _apply_host_rules(snapshot, request, rules, hosts)
    order, number = snapshot.clusters_in_order
    candidates = _candidates(snapshot, per_host)
    local = None
    volumes = Volumes.of(disks, StorageType.LOCAL)
    if volumes.sizes:
        candidates, local = _store_locally(snapshot, volumes, candidates)
        hosts.exclude_at(candidates.at[candidates.capacity == 0], storage.RULE)
    clusters = total(candidates.cluster, candidates.capacity, len(order))
    shared, alone = None, clusters
    volumes = Volumes.of(disks, StorageType.SHARED)
    if volumes.sizes:
        shared = shared_storage(snapshot, request, volumes, clusters)
        clusters, alone = np.minimum(clusters, shared.capacity), np.minimum(clusters, shared.alone)
        hosts.exclude_clusters((clusters == 0)[number], storage.RULE)
    for rule in rules:
        bound = None if rule.cluster_capacity is None else rule.cluster_capacity(snapshot, request)
        if bound is not None:
            bound = np.maximum(bound[order], 0)
            clusters, alone = np.minimum(clusters, bound), np.minimum(alone, bound)
            hosts.exclude_clusters((clusters == 0)[number], rule)
    found = Capacity(hosts, order, candidates, clusters, alone, local, shared)
    is_bound = affinity.RULE in rules and needs_one_host(request)
    return _on_one_host(snapshot, found) if is_bound else found


class HostAnswers:
    """The result of the placement rules for each host of a zone: the number of VMs, or why there is none.

    Raises:
        PlannerNotInstalled: the request names a planner that is not installed.
    """

    def __init__(self, snapshot: ZoneSnapshot, request: PlacementRequest, catalog: PlacementCatalog) -> None:
        found = measure_capacity(snapshot, request, catalog)
        self._ids, self._filter = snapshot.hosts.id, found.hosts
        self._capacity = np.zeros(len(self._ids), dtype=np.int64)
        self._capacity[found.candidates.at] = found.of_candidates()

    def of(self, host_ids: Sequence[int]) -> list[HostAnswer]:
        """Return one result per given host. Hosts of other zones are excluded as out of scope."""
        found = {
            int(self._ids[at]): HostAnswer(int(self._ids[at]), int(self._capacity[at]), self._filter.reason(at))
            for at in np.flatnonzero(np.isin(self._ids, np.array(host_ids, dtype=np.int64))).tolist()
        }
        return [found.get(host_id, HostAnswer(host_id, 0, out_of_scope.RULE.reason)) for host_id in host_ids]


def _apply_host_rules(
    snapshot: ZoneSnapshot, request: PlacementRequest, rules: Sequence[Rule], hosts: HostFilter
) -> Ints:
    """Exclude hosts by all rules, and return the number of VMs that each host can take: 0 for an excluded host."""
    kept, remaining = _lasting_exclusions(snapshot, request, rules)
    capacity = kept.copy()
    for rule, lasting in remaining:
        if lasting is not None:
            hosts.exclude(lasting, rule)
            continue
        for marked in _marked(snapshot, request, rule):
            hosts.exclude(marked, rule)
            capacity[marked] = 0
        if rule.host_capacity is not None and (bound := rule.host_capacity(snapshot, request)) is not None:
            hosts.exclude(bound <= 0, rule)
            np.minimum(capacity, bound, out=capacity)
    return np.maximum(capacity, 0, out=capacity)


def _lasting_exclusions(
    snapshot: ZoneSnapshot, request: PlacementRequest, rules: Sequence[Rule]
) -> tuple[Ints, list[tuple[Rule, Flags | None]]]:
    """Return the hosts that lasting rules keep, and all rules in order with the hosts that lasting rules exclude.

    The first result is ENDLESS for a host that is not excluded, otherwise 0. Lasting rules that exclude no host are
    left out. Rules without a set of hosts must be applied to each request.
    """

    def find() -> tuple[Ints, list[tuple[Rule, Flags | None]]]:
        kept = np.full(len(snapshot.hosts.id), ENDLESS, dtype=np.int64)
        remaining: list[tuple[Rule, Flags | None]] = []
        for rule in rules:
            if not rule.lasting or rule.host_capacity is not None:
                remaining.append((rule, None))
                continue
            for marked in _marked(snapshot, request, rule):
                if marked.any():
                    remaining.append((rule, marked))
                    kept[marked] = 0
        return kept, remaining

    by = (request.purpose, request.planner, request.offering_planner, request.hypervisor, request.host_tags)
    pins = (request.pod_id, request.cluster_id, request.host_id, request.avoid_host_ids, request.dedicated)
    return snapshot.once(("lasting exclusions", by, pins), find)


def _marked(snapshot: ZoneSnapshot, request: PlacementRequest, rule: Rule) -> list[Flags]:
    """Return the hosts that a rule excludes."""
    found = []
    if rule.excludes_clusters is not None and (marked := rule.excludes_clusters(snapshot, request)) is not None:
        found.append(marked[snapshot.hosts.cluster])
    if rule.excludes_hosts is not None and (marked := rule.excludes_hosts(snapshot, request)) is not None:
        found.append(marked)
    return found


def _candidates(snapshot: ZoneSnapshot, capacity: Ints) -> CandidateHosts:
    """Return the hosts with a capacity of at least one VM, ordered by cluster and id."""
    at, cluster = snapshot.hosts_in_order
    capacity = capacity[at]
    takes = capacity > 0
    return CandidateHosts(at[takes], cluster[takes], capacity[takes])


def _store_locally(
    snapshot: ZoneSnapshot, volumes: Volumes, candidates: CandidateHosts
) -> tuple[CandidateHosts, LocalStorage]:
    table = rows_of(local_pools(snapshot, volumes), candidates.at)
    packing = pack(table, volumes.sizes, candidates.capacity, np.zeros(len(volumes.sizes), dtype=bool))
    return replace(candidates, capacity=packing.vms_per_row()), LocalStorage(volumes, table, packing)


def _on_one_host(snapshot: ZoneSnapshot, found: Capacity) -> Capacity:
    """Return the capacity reduced to one host: the host with the most capacity, limited by its cluster.

    A host of a last-resort cluster is chosen only if no other host has capacity. Ties are decided by the smallest
    number of the owner's VMs in the cluster, then by ids. The number of requested VMs has no influence, so a batch
    that is split into two calls ends on the same host.
    """
    candidates = found.candidates
    capacity = found.of_candidates()
    kept = np.zeros(len(capacity), dtype=np.int64)
    clusters = np.zeros(len(found.clusters), dtype=np.int64)
    if capacity.any():
        owner_vms = snapshot.clusters.owner_vms[found.order][candidates.cluster]
        policy = snapshot.clusters.policy[found.order][candidates.cluster]
        chosen = np.lexsort((owner_vms, -capacity, policy, capacity == 0))[0]
        kept[chosen] = capacity[chosen]
        clusters[candidates.cluster[chosen]] = capacity[chosen]
        found.hosts.exclude_at(candidates.at[kept == 0], affinity.RULE)
    one = replace(candidates, capacity=kept)
    return replace(found, candidates=one, clusters=clusters, alone=clusters)
