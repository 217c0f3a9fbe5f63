"""The cost by which Ganeti's hail places instances if all nodes have exclusive storage.

The value of a node is the number of instances of the smallest allowed size that it can still take, for each pair of
bounds in its group's policy, the pair with the largest disk first. The cost of a placement is the value that it
removes. Hail prefers the lowest cost, then the least free disk afterwards; it does not check whether the instances
of a failed node could be restarted (doc/design-allocation-efficiency.rst and HTools/Dedicated.hs of Ganeti 3).
"""

from collections.abc import Mapping

import numpy as np

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.document import Instance
from bulkdeploy.placement.model import Ints


def placement_costs(cluster: GanetiCluster, instance: Instance, group: int, pairs: Ints) -> Ints:
    """Return the cost of each placement of an instance, as a row that is compared from left to right.

    Args:
        cluster: the cluster without the instance.
        instance: the new instance.
        group: the index of the nodes' group.
        pairs: a row of node indexes for each placement: the primary, then the secondary if there is one.
    """
    primary, secondaries = pairs[:, 0], pairs[:, 1:]
    memory = instance.memory if instance.uses_memory else 0
    smallest = sorted(
        (least for least, _most in cluster.groups[group].policy.bounds), key=lambda least: -least["disk-size"]
    )
    free_memory, free_disk, free_vcpus = cluster.free_memory, cluster.free_disk, cluster.free_vcpus
    reserve = cluster.reserve

    def lost(nodes: Ints, memory_taken: Ints | int, vcpus_taken: int) -> Ints:
        rows = []
        for least in smallest:
            before = _count(least, (free_memory - reserve)[nodes], free_disk[nodes], free_vcpus[nodes])
            after = _count(
                least,
                (free_memory - reserve)[nodes] - memory_taken,
                free_disk[nodes] - instance.disk_space,
                free_vcpus[nodes] - vcpus_taken,
            )
            rows.append(before - after)
        return np.array([*rows, free_disk[nodes] - instance.disk_space])

    costs = lost(primary, memory, instance.vcpus * instance.uses_memory)
    for secondary in secondaries.T:
        reserved = np.maximum(cluster.peers[primary, secondary] + memory - reserve[secondary], 0)
        costs = costs + lost(secondary, reserved, 0)
    found: Ints = costs.T
    return found


def _count(least: Mapping[str, int], memory: Ints, disk: Ints, vcpus: Ints) -> Ints:
    """Return how many instances of the smallest allowed size ``least`` each node can take.

    On each node, 1 MiB of memory and of disk remains free.
    """
    fitting = [
        (memory - 1) // max(least["memory-size"], 1),
        (disk - 1) // max(least["disk-size"], 1),
        vcpus // max(least["cpu-count"], 1),
    ]
    found: Ints = np.maximum(np.minimum.reduce(fitting), 0)
    return found
