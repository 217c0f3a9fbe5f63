"""``FirstFitPlanner``: clusters by least use of CPU first, each filled to its room.

With pods first, pods by least use of CPU, and the clusters inside each pod likewise. The order is that of
the moment of the plan: a later batch sees the use that the first one made and may begin elsewhere.
"""

from bulkdeploy.placement.strategy import Filling, OpenClusters, by_least_cpu, one_after_the_other


def filling(clusters: OpenClusters, *, pods_first: bool) -> Filling:
    """Fill the clusters in order of CPU use; ties by id."""
    return one_after_the_other(by_least_cpu(clusters, pods_first=pods_first))
