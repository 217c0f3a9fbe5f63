"""Shared storage of a batch: the VMs that each cluster's pools can store, with and without the zone's pools."""

from dataclasses import dataclass

import numpy as np

from bulkdeploy.placement.model import Ints, PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.storage.packing import OneDiskPacking, Packing, pack
from bulkdeploy.placement.storage.pools import PoolTable, Volumes, cluster_pools, with_zone_pools, zone_pools
from bulkdeploy.placement.storage.zone_storage import ZoneStorage


@dataclass(frozen=True, slots=True)
class SharedStorage:
    """The pools of the clusters (one row per cluster, in order of ids), their packing, and the zone's pools.

    ``capacity`` is the number of VMs that each cluster could store if the zone's pools were unlimited. ``alone`` is
    the number with the actual zone's pools, if no other cluster used them.
    """

    volumes: Volumes
    own: PoolTable
    packing: Packing | OneDiskPacking
    zone: PoolTable
    capacity: Ints
    alone: Ints

    def zone_storage(self, clusters: Ints, capacity: Ints) -> ZoneStorage | None:
        """Return the storage that the given clusters share, or None if no zone-wide pool serves any disk."""
        if not self.zone.width:
            return None
        return ZoneStorage.of(self.zone, self.volumes.sizes, self.packing.vms_in_own_pools()[clusters], capacity)


def shared_storage(
    snapshot: ZoneSnapshot, request: PlacementRequest, volumes: Volumes, most: Ints
) -> SharedStorage:
    """Fill the pools of the clusters, in order of ids, with up to ``most`` VMs each."""
    own = cluster_pools(snapshot, volumes)
    zone = zone_pools(snapshot, request.hypervisor, volumes)
    nothing_spills = np.zeros(len(volumes.sizes), dtype=bool)
    packing = pack(own, volumes.sizes, most, zone.serves if zone.width else nothing_spills)
    capacity = packing.vms_per_row()
    if not zone.width:
        return SharedStorage(volumes, own, packing, zone, capacity, capacity)
    alone = pack(with_zone_pools(own, zone), volumes.sizes, most, nothing_spills).vms_per_row()
    return SharedStorage(volumes, own, packing, zone, np.where(alone > 0, capacity, 0), alone)
