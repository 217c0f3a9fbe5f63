"""The planner: a snapshot and a request in, a plan out. No I/O, no clock, no chance but the seed's.

The steps: rule out hosts (``candidates``), count what is left (``rooms``), share the VMs among clusters
(``strategies``), then inside each cluster among hosts (``hosts``) and pools (``pool_choice``), and put
them in job order. Nothing depends on the order in which the snapshot lists clusters, hosts and pools.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bulkdeploy.placement.dispersion import interleave
from bulkdeploy.placement.hosts import Rack, share_hosts
from bulkdeploy.placement.model import Ints, PlacementRequest, Plan, Spread, Strategy, ZoneSnapshot
from bulkdeploy.placement.pool_choice import choose_shared_pools
from bulkdeploy.placement.rooms import Rooms, measure_rooms
from bulkdeploy.placement.slots import total
from bulkdeploy.placement.strategies import (
    count_dispersing,
    first_fit,
    implicit_dedication,
    user_concentrated_pod,
)
from bulkdeploy.placement.strategy import Filling, OpenClusters
from bulkdeploy.placement.zone_storage import Grant, share_zone


def plan(snapshot: ZoneSnapshot, request: PlacementRequest) -> Plan:
    """Where the request's VMs go: as many as fit, placed + refused = asked.

    The same snapshot, request and seed give the same plan. With the count-dispersing and the pod-
    concentrating strategy, planning a + b VMs gives each cluster what planning a, and then b on what that
    leaves, gives it; first fit orders clusters anew for each plan.

    Raises:
        ValueError: the request names a host algorithm that does not exist.
    """
    rooms = measure_rooms(snapshot, request)
    opened = np.flatnonzero(rooms.alone > 0)
    clusters = _open_clusters(snapshot, rooms, opened)
    filling = _filling(request.strategy)(clusters, pods_first=request.pods_first)
    capacity, share, grants = _share(filling, clusters, rooms, opened, request.count)
    added = np.zeros_like(rooms.room)
    added[opened] = share
    host, pools = _places(snapshot, request, rooms, added, grants)
    cluster = snapshot.hosts.cluster[host]
    return Plan(
        asked=request.count,
        host_ids=snapshot.hosts.id[host],
        cluster_ids=snapshot.clusters.id[cluster],
        pod_ids=snapshot.clusters.pod_id[cluster],
        pool_ids=pools,
        capacity=capacity,
        excluded=rooms.sieve.excluded(),
        spread=_spread(snapshot, rooms, opened, share),
    )


class _Strategy(Protocol):
    def __call__(self, clusters: OpenClusters, *, pods_first: bool) -> Filling: ...


def _filling(strategy: Strategy) -> _Strategy:
    strategies: dict[Strategy, _Strategy] = {
        Strategy.COUNT_DISPERSING: count_dispersing.filling,
        Strategy.FIRST_FIT: first_fit.filling,
        Strategy.USER_CONCENTRATED_POD: user_concentrated_pod.filling,
        Strategy.IMPLICIT_DEDICATION: implicit_dedication.filling,
    }
    return strategies[strategy]


def _open_clusters(snapshot: ZoneSnapshot, rooms: Rooms, opened: Ints) -> OpenClusters:
    columns, use = snapshot.clusters, rooms.use
    at = rooms.order[opened]
    pods, pod = np.unique(columns.pod_id, return_inverse=True)
    pod_owner_vms, pod_all_vms, pod_used, pod_limit = (
        total(pod, amounts, len(pods))
        for amounts in (columns.owner_vms, columns.all_vms, use.cpu_used, use.cpu_limit)
    )
    return OpenClusters(
        id=columns.id[at],
        owner_vms=columns.owner_vms[at],
        all_vms=columns.all_vms[at],
        room=rooms.room[opened],
        cpu_share=use.cpu_used[at] / np.maximum(use.cpu_limit[at], 1),
        pod=pod[at],
        pod_owner_vms=pod_owner_vms,
        pod_all_vms=pod_all_vms,
        pod_cpu_share=pod_used / np.maximum(pod_limit, 1),
    )


def _share(
    filling: Filling, clusters: OpenClusters, rooms: Rooms, opened: Ints, count: int
) -> tuple[int, Ints, Sequence[Grant]]:
    """What the open clusters hold in all, how many VMs each gets, and the zone-wide pools they use."""
    zone = rooms.shared.zone_storage(opened, clusters.room) if rooms.shared else None
    if zone is None or not zone.spills:
        return int(clusters.room.sum()), filling(np.zeros_like(opened), clusters.room, count), ()
    share, grants = share_zone(filling, clusters.room, zone, count)
    return zone.capacity(filling, clusters.room), share, grants


def _places(
    snapshot: ZoneSnapshot, request: PlacementRequest, rooms: Rooms, added: Ints, grants: Sequence[Grant]
) -> tuple[Ints, Ints]:
    """Positions of the hosts in job order, and the ids of the pools: a line per VM, a column per disk."""
    used = np.flatnonzero(added)
    rack = rooms.rack
    near = added[rack.cluster] > 0
    number = np.cumsum(added > 0) - 1
    chosen = Rack(rack.at[near], number[rack.cluster[near]], rack.slots[near])
    per_host = share_hosts(snapshot.hosts, request, chosen, added[used])
    in_cluster = interleave(chosen.cluster, per_host)
    in_job_order = interleave(np.zeros_like(used), added[used])
    by_host = in_cluster[in_job_order]
    pools = np.full((len(by_host), len(request.disks)), -1, dtype=np.int64)
    if rooms.shared is not None:
        position = choose_shared_pools(rooms.shared, added, grants)[in_job_order]
        pools[:, list(rooms.shared.volumes.positions)] = snapshot.pools.id[position]
    if rooms.local is not None:
        vms = np.zeros_like(rack.slots)
        vms[near] = per_host
        position = rooms.local.pools_for(vms)[by_host]
        pools[:, list(rooms.local.volumes.positions)] = snapshot.pools.id[position]
    return np.repeat(chosen.at, per_host)[by_host], pools


def _spread(snapshot: ZoneSnapshot, rooms: Rooms, opened: Ints, share: Ints) -> Spread:
    columns = snapshot.clusters
    at = rooms.order[opened]
    return Spread(columns.id[at], columns.pod_id[at], columns.owner_vms[at], rooms.alone[opened], share)
