"""``FirstFitPlanner``: clusters by least use of CPU first, each filled to its room.

With pods first, pods by least use of CPU, and the clusters inside each pod likewise. The order is that of
the moment of the plan: a later batch sees the use that the first one made and may begin elsewhere.
"""

import numpy as np

from bulkdeploy.placement.dispersion import fill_in_order
from bulkdeploy.placement.model import Ints
from bulkdeploy.placement.strategies.strategy import Filling, OpenClusters


def filling(clusters: OpenClusters, *, pods_first: bool) -> Filling:
    """Fill the clusters in order of CPU use; ties by id."""
    keys = [clusters.id, clusters.cpu_share]
    if pods_first:
        keys += [clusters.pod, clusters.pod_cpu_share[clusters.pod]]
    return ordered(np.lexsort(keys))


def ordered(order: Ints) -> Filling:
    """Fill the clusters one after the other in the given order of positions."""
    one_segment = np.zeros(len(order), dtype=np.int64)

    def fill(taken: Ints, room: Ints, count: int) -> Ints:
        added = np.zeros_like(taken)
        added[order] = fill_in_order(room[order], one_segment, np.array([count]))
        return added

    return fill
