"""The check whether an earlier plan is still valid in the present zone, by the same rules."""

from dataclasses import dataclass, replace

import numpy as np

from bulkdeploy.placement.capacity import measure_capacity
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.claimed_plans import after
from bulkdeploy.placement.model import Ints, PlacementRequest, Plan, Spread, ZoneSnapshot


@dataclass(frozen=True, slots=True)
class Places:
    """The hosts and pools of the VMs of a plan, by id."""

    host_ids: Ints
    pool_ids: Ints


@dataclass(frozen=True, slots=True)
class Lacking:
    """A host, cluster or pool (``noun``), by id, with less capacity for VMs or disks than the plan needs.

    ``reason`` is the reason of the rule that excludes a host completely, or None.
    """

    noun: str
    id: int
    needed: int
    capacity: int
    reason: str | None = None


def stands(
    snapshot: ZoneSnapshot, request: PlacementRequest, places: Places, catalog: PlacementCatalog
) -> Plan | list[Lacking]:
    """Return the plan with the given hosts and pools, or the list of all obstacles that prevent its claim now.

    Raises:
        PlannerNotInstalled: the request names a planner that is not installed.
    """
    found = measure_capacity(snapshot, request, catalog)
    hosts, clusters = snapshot.hosts, snapshot.clusters
    ids, vms = np.unique(places.host_ids, return_counts=True)
    gone = [Lacking("host", each, 1, 0) for each in ids[~np.isin(ids, hosts.id)].tolist()]
    if gone:
        return gone
    capacity = np.zeros(len(hosts.id), dtype=np.int64)
    capacity[found.candidates.at] = found.of_candidates()
    order = np.argsort(hosts.id, kind="stable")
    at = order[np.searchsorted(hosts.id, ids, sorter=order)]
    short = _short("host", ids, vms, capacity[at])
    position = dict(zip(ids.tolist(), at.tolist(), strict=True))
    lacking = [replace(each, reason=found.hosts.reason(position[each.id])) for each in short]
    of_cluster = np.zeros(len(clusters.id), dtype=np.int64)
    np.add.at(of_cluster, hosts.cluster[at], vms)
    capacity_of_cluster = np.zeros(len(clusters.id), dtype=np.int64)
    capacity_of_cluster[found.order] = found.alone
    lacking += _short("cluster", clusters.id, of_cluster, capacity_of_cluster)
    cluster = hosts.cluster[order[np.searchsorted(hosts.id, places.host_ids, sorter=order)]]
    opened = ((of_cluster > 0) | (capacity_of_cluster > 0)).nonzero()[0]
    opened = opened[np.argsort(clusters.id[opened])]
    made = Plan(
        requested=request.count,
        host_ids=places.host_ids,
        cluster_ids=clusters.id[cluster],
        pod_ids=clusters.pod_id[cluster],
        pool_ids=places.pool_ids,
        capacity=int(found.clusters.sum()),
        count_excluded=found.hosts.excluded,
        spread=Spread(
            clusters.id[opened],
            clusters.pod_id[opened],
            clusters.owner_vms[opened],
            capacity_of_cluster[opened],
            of_cluster[opened],
        ),
    )
    return lacking or _in_pools(snapshot, request, made) or made


def _in_pools(snapshot: ZoneSnapshot, request: PlacementRequest, made: Plan) -> list[Lacking]:
    """Return the pools in which the plan's disks no longer fit, with the needed and the free bytes."""
    pools = snapshot.pools
    used = np.unique(made.pool_ids[made.pool_ids >= 0])
    gone = used[~np.isin(used, pools.id[pools.up])]
    if len(gone):
        return [Lacking("storage pool", pool, 1, 0) for pool in gone.tolist()]
    added = after(snapshot, request, made).pools.allocated - pools.allocated
    return _short("storage pool", pools.id, added, np.maximum(pools.limit - pools.allocated, 0))


def _short(noun: str, ids: Ints, needed: Ints, capacity: Ints) -> list[Lacking]:
    short = (needed > capacity).nonzero()[0]
    return [Lacking(noun, int(ids[at]), int(needed[at]), int(capacity[at])) for at in short]
