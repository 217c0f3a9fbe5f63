"""``ImplicitDedicationPlanner``, strict: only hosts on which no other account has VMs.

Clusters are then taken as first fit does, so that few hosts become the owner's.
"""

from bulkdeploy.placement.model import Flags, HostColumns
from bulkdeploy.placement.strategy import Filling, OpenClusters, by_least_cpu, one_after_the_other


def occupied_by_others(hosts: HostColumns) -> Flags:
    """Hosts with more VMs than the owner has there (VMs that are moving in or out count)."""
    return hosts.vms_used > hosts.owner_vms


def filling(clusters: OpenClusters, *, pods_first: bool) -> Filling:
    """Fill the clusters in order of CPU use; ties by id."""
    return one_after_the_other(by_least_cpu(clusters, pods_first=pods_first))
