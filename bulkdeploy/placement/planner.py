"""The planner: a snapshot and a request in, a plan out. No I/O, no clock, no chance but the seed's.

The steps: exclude hosts and count what the others hold (``capacity``), share the VMs among clusters
(``strategies``), then inside each cluster among hosts (``hosts``) and pools (``pool_choice``), and put
them in job order. Nothing depends on the order in which the snapshot lists clusters, hosts and pools.
"""

from collections.abc import Sequence

import numpy as np

from bulkdeploy.domain.topology import AllocationPolicy
from bulkdeploy.placement.capacity import Capacity, measure_capacity
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.dispersion import interleave
from bulkdeploy.placement.hosts import CandidateHosts, share_hosts
from bulkdeploy.placement.model import Ints, PlacementRequest, Plan, Spread, ZoneSnapshot, total
from bulkdeploy.placement.pool_choice import choose_shared_pools
from bulkdeploy.placement.strategy import Filling, OpenClusters, preferred_first
from bulkdeploy.placement.zone_storage import Grant, share_zone


def plan(snapshot: ZoneSnapshot, request: PlacementRequest, catalog: PlacementCatalog) -> Plan:
    """Where the request's VMs go: as many as fit, placed + refused = asked.

    The same snapshot, request and seed give the same plan. With the count-dispersing and the pod-
    concentrating strategy, planning a + b VMs gives each cluster what planning a, and then b on what that
    leaves, gives it; first fit orders clusters anew for each plan.

    Raises:
        PlannerNotInstalled: the request names a planner that is not there.
    """
    found = measure_capacity(snapshot, request, catalog)
    opened = np.flatnonzero(found.alone > 0)
    clusters = _open_clusters(snapshot, found, opened)
    last_resort = snapshot.clusters.policy[found.order[opened]] == AllocationPolicy.LAST_RESORT.rank
    filling = preferred_first(
        catalog.strategy(request.planner).filling(clusters, pods_first=request.pods_first), last_resort
    )
    capacity, share, grants = _share(filling, clusters, found, opened, request.count)
    added = np.zeros_like(found.clusters)
    added[opened] = share
    host, pools = _places(snapshot, request, found, added, grants)
    cluster = snapshot.hosts.cluster[host]
    return Plan(
        requested=request.count,
        host_ids=snapshot.hosts.id[host],
        cluster_ids=snapshot.clusters.id[cluster],
        pod_ids=snapshot.clusters.pod_id[cluster],
        pool_ids=pools,
        capacity=capacity,
        excluded=found.hosts.excluded(),
        spread=_spread(snapshot, found, opened, share),
    )


def _open_clusters(snapshot: ZoneSnapshot, found: Capacity, opened: Ints) -> OpenClusters:
    columns, use = snapshot.clusters, snapshot.cluster_use
    at = found.order[opened]
    pods, pod = np.unique(columns.pod_id, return_inverse=True)
    pod_owner_vms, pod_all_vms, pod_used, pod_limit = (
        total(pod, amounts, len(pods))
        for amounts in (columns.owner_vms, columns.all_vms, use.cpu_used, use.cpu_limit)
    )
    return OpenClusters(
        id=columns.id[at],
        owner_vms=columns.owner_vms[at],
        all_vms=columns.all_vms[at],
        capacity=found.clusters[opened],
        cpu_share=use.cpu_used[at] / np.maximum(use.cpu_limit[at], 1),
        pod=pod[at],
        pod_owner_vms=pod_owner_vms,
        pod_all_vms=pod_all_vms,
        pod_cpu_share=pod_used / np.maximum(pod_limit, 1),
    )


def _share(
    filling: Filling, clusters: OpenClusters, found: Capacity, opened: Ints, count: int
) -> tuple[int, Ints, Sequence[Grant]]:
    """What the open clusters hold in all, how many VMs each gets, and the zone-wide pools they use."""
    zone = found.shared.zone_storage(opened, clusters.capacity) if found.shared else None
    if zone is None or not zone.spills:
        return int(clusters.capacity.sum()), filling(np.zeros_like(opened), clusters.capacity, count), ()
    share, grants = share_zone(filling, clusters.capacity, zone, count)
    return zone.capacity(filling, clusters.capacity), share, grants


def _places(
    snapshot: ZoneSnapshot, request: PlacementRequest, found: Capacity, added: Ints, grants: Sequence[Grant]
) -> tuple[Ints, Ints]:
    """Positions of the hosts in job order, and the ids of the pools: a line per VM, a column per disk."""
    used = np.flatnonzero(added)
    candidates = found.candidates
    near = added[candidates.cluster] > 0
    number = np.cumsum(added > 0) - 1
    chosen = CandidateHosts(candidates.at[near], number[candidates.cluster[near]], candidates.capacity[near])
    per_host = share_hosts(snapshot.hosts, request, chosen, added[used])
    in_cluster = interleave(chosen.cluster, per_host)
    in_job_order = interleave(np.zeros_like(used), added[used])
    by_host = in_cluster[in_job_order]
    pools = np.full((len(by_host), len(request.disks)), -1, dtype=np.int64)
    if found.shared is not None:
        position = choose_shared_pools(found.shared, added, grants)[in_job_order]
        pools[:, list(found.shared.volumes.positions)] = snapshot.pools.id[position]
    if found.local is not None:
        vms = np.zeros_like(candidates.capacity)
        vms[near] = per_host
        position = found.local.pools_for(vms)[by_host]
        pools[:, list(found.local.volumes.positions)] = snapshot.pools.id[position]
    return np.repeat(chosen.at, per_host)[by_host], pools


def _spread(snapshot: ZoneSnapshot, found: Capacity, opened: Ints, share: Ints) -> Spread:
    columns = snapshot.clusters
    at = found.order[opened]
    return Spread(columns.id[at], columns.pod_id[at], columns.owner_vms[at], found.alone[opened], share)
