"""The check whether the instances of any one failed node could restart in its group (Ganeti's global N+1).

The check is about instances without a secondary node. For the others, memory is reserved on their secondary node.
"""

import numpy as np

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.document import Instance
from bulkdeploy.placement.model import Ints


def restart_gap(cluster: GanetiCluster, instance: Instance, node: int) -> str | None:
    """Return why instances could not be restarted if ``instance`` ran on ``node`` and a node failed.

    Only failures of nodes in the group of ``node`` are considered. Returns None if all instances could be
    restarted.
    """
    usable = [one.online and one.takes_instances for one in cluster.nodes]
    members = np.flatnonzero((cluster.group_of == cluster.group_of[node]) & usable)
    free = np.maximum(cluster.free_memory - cluster.reserve - 1, 0)
    free[node] -= instance.memory
    for failed in _doubtful(cluster, instance, node, members, free):
        sizes = [each.memory for each in cluster.primaries[failed].values() if _restarts(each)]
        if failed == node:
            sizes.append(instance.memory)
        missing = _unfit(sizes, free[members[members != failed]].tolist())
        if missing:
            return (
                f"with it on {cluster.names[node]}, instances of {cluster.names[failed]} could not be restarted "
                f"on other nodes: {missing} MiB of memory are lacking (N+1)"
            )
    return None


def _doubtful(cluster: GanetiCluster, instance: Instance, node: int, members: Ints, free: Ints) -> list[int]:
    """Return the nodes whose instances would not fit elsewhere if each were as large as the largest one.

    For all other nodes, no exact check is needed.
    """
    most = max(instance.memory, cluster.largest_memory, 1)
    places = free // most
    instances = np.array([len(each) for each in cluster.primaries], dtype=np.int64)
    instances[node] += 1
    elsewhere = places[members].sum() - places[members]
    doubtful: list[int] = members[elsewhere < instances[members]].tolist()
    return doubtful


def _restarts(instance: Instance) -> bool:
    return not instance.mirrored and instance.uses_memory


def _unfit(sizes: list[int], free: list[int]) -> int:
    """Return the MiB that the first instance that fits on no node lacks, or 0 if all instances fit.

    Instances are placed by descending size, each on the node with the most free memory.
    """
    left = sorted(free)
    for size in sorted(sizes, reverse=True):
        if not left or left[-1] < size:
            return size - (left[-1] if left else 0)
        left[-1] -= size
        left.sort()
    return 0
