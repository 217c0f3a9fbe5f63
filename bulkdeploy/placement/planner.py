"""The planner, which computes a plan from a snapshot and a request. It has no I/O and reads no clock.

The steps are: exclude hosts and count the VMs that the others can take (``capacity``), divide the VMs among
clusters (``strategies``), then inside each cluster among hosts (``hosts``) and pools (``pool_choice``), and arrange
them in job order. The result does not depend on the order in which the snapshot lists clusters, hosts and pools.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from bulkdeploy.domain.infrastructure.topology import AllocationPolicy
from bulkdeploy.placement.capacity import Capacity, measure_capacity
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.claimed_plans import after, with_members_of
from bulkdeploy.placement.dispersion import interleave
from bulkdeploy.placement.hosts import CandidateHosts, share_hosts
from bulkdeploy.placement.model import Ints, PlacementRequest, Plan, Spread, ZoneSnapshot
from bulkdeploy.placement.storage.pool_choice import choose_shared_pools
from bulkdeploy.placement.storage.zone_storage import Grant, share_zone
from bulkdeploy.placement.strategy import Filling, OpenClusters, preferred_first


def plan(
    snapshot: ZoneSnapshot,
    request: PlacementRequest,
    catalog: PlacementCatalog,
    vms_by_cluster: Mapping[int, int] | None = None,
) -> Plan:
    """Return the places of the request's VMs. All of them are placed, or as many as fit.

    The same snapshot, request and seed give the same plan. With the count-dispersing and the pod-concentrating
    strategy, planning a + b VMs gives each cluster the same number as planning a VMs, claiming them, and planning b
    VMs. First fit orders the clusters again for each plan.

    ``vms_by_cluster`` has the number of VMs for each cluster (by id), which replaces the strategy. The numbers add
    up to the requested one.

    Raises:
        PlannerNotInstalled: the request names a planner that is not installed.
    """
    found = measure_capacity(snapshot, request, catalog)
    opened = (found.alone > 0).nonzero()[0]
    clusters = OpenClusters(snapshot, found.order[opened], found.clusters[opened])
    if vms_by_cluster is None:
        last_resorts = snapshot.once(
            "last resorts", lambda: snapshot.clusters.policy == AllocationPolicy.LAST_RESORT.rank
        )
        filling = preferred_first(
            catalog.strategy(request.planner).filling(clusters, pods_first=request.pods_first),
            last_resorts[clusters.at],
        )
    else:
        filling = _given(clusters, vms_by_cluster)
    capacity, share, grants = _share(filling, clusters, found, opened, request.count)
    added = np.zeros(len(found.clusters), dtype=np.int64)
    added[opened] = share
    host, pools = _places(snapshot, request, found, added, grants)
    cluster = snapshot.hosts.cluster[host]
    made = Plan(
        requested=request.count,
        host_ids=snapshot.hosts.id[host],
        cluster_ids=snapshot.clusters.id[cluster],
        pod_ids=snapshot.clusters.pod_id[cluster],
        pool_ids=pools,
        capacity=capacity,
        count_excluded=found.hosts.excluded,
        spread=Spread(
            clusters.id, snapshot.clusters.pod_id[clusters.at], clusters.owner_vms, found.alone[opened], share
        ),
    )
    return _with_limiting(snapshot, request, made, catalog)


def plan_pinned(
    snapshot: ZoneSnapshot, requests: Sequence[PlacementRequest], catalog: PlacementCatalog
) -> tuple[Plan, list[Plan]]:
    """Plan requests that differ only in the cluster and the number of VMs, and return the whole plan and its parts.

    Each request is pinned to another cluster and has neither disks nor affinity groups. The VMs of a cluster then
    do not depend on those of other clusters: each cluster gets the number of VMs that ``plan`` gives its request.

    Raises:
        PlannerNotInstalled: the requests name a planner that is not installed.
    """
    vms = {request.cluster_id: request.count for request in requests if request.cluster_id is not None}
    made = plan(snapshot, replace(requests[0], cluster_id=None, count=sum(vms.values())), catalog, vms)
    by_cluster = made.cluster_ids.argsort(kind="stable")
    first, opened = (
        ids.searchsorted([[cluster_id, cluster_id + 1] for cluster_id in vms])
        for ids in (made.cluster_ids[by_cluster], made.spread.cluster_id)
    )
    parts = []
    for request, (start, end), (at, after_it) in zip(requests, first.tolist(), opened.tolist(), strict=True):
        part = replace(
            made.of(by_cluster[start:end]),
            requested=request.count,
            capacity=int(made.spread.capacity[at:after_it].sum()),
            count_excluded=partial(_excluded, snapshot, request, catalog),
            spread=made.spread.between(at, after_it),
            count_limiting=None,
        )
        parts.append(_with_limiting(snapshot, request, part, catalog))
    return made, parts


def _given(clusters: OpenClusters, vms_by_cluster: Mapping[int, int]) -> Filling:
    wanted = np.array([vms_by_cluster.get(cluster_id, 0) for cluster_id in clusters.id.tolist()], dtype=np.int64)

    def fill(taken: Ints, capacity: Ints, count: int) -> Ints:
        del count
        added: Ints = np.minimum(wanted - taken, capacity)
        return added

    return fill


def _with_limiting(
    snapshot: ZoneSnapshot, request: PlacementRequest, made: Plan, catalog: PlacementCatalog
) -> Plan:
    if not 0 < made.placed < request.count:
        return made
    return replace(made, count_limiting=partial(_excluded_after, snapshot, request, made, catalog))


def _excluded(snapshot: ZoneSnapshot, request: PlacementRequest, catalog: PlacementCatalog) -> Mapping[str, int]:
    return measure_capacity(snapshot, request, catalog).hosts.excluded()


def _excluded_after(
    snapshot: ZoneSnapshot, request: PlacementRequest, made: Plan, catalog: PlacementCatalog
) -> Mapping[str, int]:
    """Count the hosts that each rule excludes after a partial plan is claimed.

    Exclusions before the plan do not explain why no more VMs fit.
    """
    return _excluded(after(snapshot, request, made), with_members_of(request, made), catalog)


def _share(
    filling: Filling, clusters: OpenClusters, found: Capacity, opened: Ints, count: int
) -> tuple[int, Ints, Sequence[Grant]]:
    """Divide ``count`` VMs among the open clusters.

    Returns the total capacity of these clusters, the number of VMs per cluster, and the used zone-wide pools.
    """
    zone = found.shared.zone_storage(opened, clusters.capacity) if found.shared else None
    if zone is None or not zone.spills:
        return (
            int(clusters.capacity.sum()),
            filling(np.zeros(len(opened), dtype=np.int64), clusters.capacity, count),
            (),
        )
    share, grants = share_zone(filling, clusters.capacity, zone, count)
    return zone.capacity(filling, clusters.capacity), share, grants


def _places(
    snapshot: ZoneSnapshot, request: PlacementRequest, found: Capacity, added: Ints, grants: Sequence[Grant]
) -> tuple[Ints, Ints]:
    """Return positions of the VMs' hosts in job order, and their pools' ids: a row per VM, a column per disk."""
    used = added.nonzero()[0]
    candidates = found.candidates
    near = added[candidates.cluster] > 0
    number = (added > 0).cumsum() - 1
    chosen = CandidateHosts(candidates.at[near], number[candidates.cluster[near]], candidates.capacity[near])
    per_host = share_hosts(snapshot.hosts, request, chosen, added[used])
    in_cluster = interleave(chosen.cluster, per_host)
    in_job_order = interleave(np.zeros(len(used), dtype=np.int64), added[used])
    by_host = in_cluster[in_job_order]
    pools = np.full((len(by_host), len(request.disks)), -1, dtype=np.int64)
    if found.shared is not None:
        position = choose_shared_pools(found.shared, added, grants)[in_job_order]
        pools[:, list(found.shared.volumes.positions)] = snapshot.pools.id[position]
    if found.local is not None:
        vms = np.zeros(len(candidates.capacity), dtype=np.int64)
        vms[near] = per_host
        position = found.local.pools_for(vms)[by_host]
        pools[:, list(found.local.volumes.positions)] = snapshot.pools.id[position]
    return chosen.at.repeat(per_host)[by_host], pools
