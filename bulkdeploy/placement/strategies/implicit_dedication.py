"""``ImplicitDedicationPlanner``, strict: only hosts on which no other account has VMs.

Clusters are then taken as first fit does, so that few hosts become the owner's.
"""

from bulkdeploy.placement.model import Flags, HostColumns
from bulkdeploy.placement.strategies import first_fit
from bulkdeploy.placement.strategies.strategy import Filling, OpenClusters


def occupied_by_others(hosts: HostColumns) -> Flags:
    """Hosts with more VMs than the owner has there (VMs that are moving in or out count)."""
    return hosts.vms_used > hosts.owner_vms


def filling(clusters: OpenClusters, *, pods_first: bool) -> Filling:
    """As first fit."""
    return first_fit.filling(clusters, pods_first=pods_first)
