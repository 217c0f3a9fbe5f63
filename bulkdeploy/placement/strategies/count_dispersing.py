"""``UserDispersingPlanner``, by count: VMs go where the owner has fewest.

Each VM goes to the cluster with room where the owner has the fewest VMs; ties: fewer VMs in all, then more
free slots, then the lower id. Both tie rules compare sums that one more VM does not change (others' VMs
are the same in number, free slots + owner's VMs too), so they order clusters once for the whole batch.
With pods first, each VM goes to such a pod, and inside it to such a cluster.
"""

from functools import partial

import numpy as np

from bulkdeploy.placement.dispersion import fill_levels
from bulkdeploy.placement.model import Ints
from bulkdeploy.placement.slots import total
from bulkdeploy.placement.strategies.strategy import Filling, OpenClusters


def filling(clusters: OpenClusters, *, pods_first: bool) -> Filling:
    """Disperse over clusters, or over pods first."""
    order = _tie_order(clusters.owner_vms, clusters.all_vms, clusters.room)
    if not pods_first:
        return partial(_over_clusters, clusters, order)
    pod_room = _by_pod(clusters, clusters.room)
    pods = _tie_order(clusters.pod_owner_vms, clusters.pod_all_vms, pod_room)
    inside = order[np.argsort(clusters.pod[order], kind="stable")]
    return partial(_over_pods, clusters, pods, inside)


def _tie_order(owner_vms: Ints, all_vms: Ints, room: Ints) -> Ints:
    """Positions in the order that decides between equal counts; members stand in order of their ids."""
    return np.lexsort((-(room + owner_vms), all_vms - owner_vms))


def _by_pod(clusters: OpenClusters, amounts: Ints) -> Ints:
    return total(clusters.pod, amounts, len(clusters.pod_owner_vms))


def _over_clusters(clusters: OpenClusters, order: Ints, taken: Ints, room: Ints, count: int) -> Ints:
    added = np.zeros_like(taken)
    wanted = np.array([min(count, int(room.sum()))])
    start = clusters.owner_vms + taken
    added[order] = fill_levels(start[order], 1, room[order], np.zeros_like(order), wanted)
    return added


def _over_pods(clusters: OpenClusters, pods: Ints, inside: Ints, taken: Ints, room: Ints, count: int) -> Ints:
    start = clusters.pod_owner_vms + _by_pod(clusters, taken)
    pod_room = _by_pod(clusters, room)
    wanted = np.zeros_like(pods)
    total = np.array([min(count, int(pod_room.sum()))])
    wanted[pods] = fill_levels(start[pods], 1, pod_room[pods], np.zeros_like(pods), total)
    open_pods, segment = np.unique(clusters.pod[inside], return_inverse=True)
    added = np.zeros_like(taken)
    level = (clusters.owner_vms + taken)[inside]
    added[inside] = fill_levels(level, 1, room[inside], segment.astype(np.int64), wanted[open_pods])
    return added
