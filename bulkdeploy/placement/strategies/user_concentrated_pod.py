"""``UserConcentratedPodPlanner``: pods where the owner has most VMs first, each filled to its capacity.

Inside a pod, the clusters where the owner has most VMs come first as well, then those with the lowest CPU usage.
Therefore a batch continues where the batch before it stopped.
"""

import numpy as np

from bulkdeploy.placement.strategy import Filling, OpenClusters, Strategy, one_after_the_other


def filling(clusters: OpenClusters, *, pods_first: bool) -> Filling:  # noqa: ARG001 - pods always come first here
    """Return a function that fills pods, and clusters inside them, from the most of the owner's VMs to the fewest.

    Equal pods are ordered by position; equal clusters by CPU usage, then by id.
    """
    keys = (
        clusters.id,
        clusters.cpu_share,
        -clusters.owner_vms,
        clusters.pod,
        -clusters.pod_owner_vms[clusters.pod],
    )
    return one_after_the_other(np.lexsort(keys))


STRATEGY = Strategy(
    planners=("UserConcentratedPodPlanner",),
    description="pods where the owner has most VMs come first, each filled to its capacity",
    order=30,
    filling=filling,
)
