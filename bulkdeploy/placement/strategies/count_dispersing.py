"""``UserDispersingPlanner`` by count: VMs go to the clusters where the owner has the fewest VMs.

Each VM goes to the cluster with free capacity where the owner has the fewest VMs. Between equal clusters the one
with fewer VMs in all comes first, then the one with more free slots, then the lower id. An additional VM does not
change the sums that decide between equal clusters (the number of others' VMs, and free slots plus owner's VMs), so
they order clusters once for the whole batch. With pods first, each VM goes to a pod chosen in this way, and inside
the pod to a cluster chosen in this way.
"""

import numpy as np

from bulkdeploy.placement.dispersion import fill_levels
from bulkdeploy.placement.model import Ints, total
from bulkdeploy.placement.strategy import Filling, OpenClusters, Strategy


def filling(clusters: OpenClusters, *, pods_first: bool) -> Filling:
    """Return a function that disperses the owner's VMs over clusters, or first over pods with ``pods_first``."""
    order = _tie_order(clusters.owner_vms, clusters.all_vms, clusters.capacity)
    return _over_pods(clusters, order) if pods_first else _over_clusters(clusters, order)


def _tie_order(owner_vms: Ints, all_vms: Ints, capacity: Ints) -> Ints:
    """Return the positions in the order that decides between equal counts. Equal members are ordered by id."""
    return np.lexsort((-(capacity + owner_vms), all_vms - owner_vms))


def _over_clusters(clusters: OpenClusters, order: Ints) -> Filling:
    one_segment = np.zeros(len(order), dtype=np.int64)

    def fill(taken: Ints, capacity: Ints, count: int) -> Ints:
        added = np.zeros(len(taken), dtype=np.int64)
        wanted = np.array([min(count, int(capacity.sum()))])
        level = clusters.owner_vms + taken
        added[order] = fill_levels(level[order], 1, capacity[order], one_segment, wanted)
        return added

    return fill


def _over_pods(clusters: OpenClusters, order: Ints) -> Filling:
    pods = len(clusters.pod_owner_vms)
    pod_capacity = total(clusters.pod, clusters.capacity, pods)
    pod_order = _tie_order(clusters.pod_owner_vms, clusters.pod_all_vms, pod_capacity)
    one_segment = np.zeros(len(pod_order), dtype=np.int64)
    inside = order[np.argsort(clusters.pod[order], kind="stable")]
    open_pods, segment = np.unique(clusters.pod[inside], return_inverse=True)

    def fill(taken: Ints, capacity: Ints, count: int) -> Ints:
        pod_level = clusters.pod_owner_vms + total(clusters.pod, taken, pods)
        pod_capacity = total(clusters.pod, capacity, pods)
        wanted = np.array([min(count, int(capacity.sum()))])
        per_pod = np.zeros(len(pod_level), dtype=np.int64)
        per_pod[pod_order] = fill_levels(pod_level[pod_order], 1, pod_capacity[pod_order], one_segment, wanted)
        added = np.zeros(len(taken), dtype=np.int64)
        level = (clusters.owner_vms + taken)[inside]
        added[inside] = fill_levels(level, 1, capacity[inside], segment, per_pod[open_pods])
        return added

    return fill


STRATEGY = Strategy(
    planners=("UserDispersingPlanner",),
    description="clusters (or pods) where the owner has fewest VMs come first, one VM at a time",
    order=20,
    filling=filling,
)
