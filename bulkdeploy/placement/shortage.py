"""The missing capacity for a VM that fits on no host, on the host that comes closest."""

from dataclasses import dataclass

import numpy as np

from bulkdeploy.domain.infrastructure.topology import StorageType
from bulkdeploy.placement.capacity import measure_capacity
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.model import Ints, PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.rules import cpu, memory, storage


@dataclass(frozen=True, slots=True)
class Shortage:
    """The host (by id) that lacks least for a VM, and the missing CPU (MHz), memory (MiB) and storage (bytes).

    A value of 0 means that there is enough. ``storage_bytes`` is for the largest shared disk in the pool with the
    most free space that the host can access.
    """

    host_id: int
    cpu_mhz: int
    memory_mib: int
    storage_bytes: int = 0


def shortage(snapshot: ZoneSnapshot, request: PlacementRequest, catalog: PlacementCatalog) -> Shortage | None:
    """Return the smallest shortage among hosts that only lack capacity, or None if there are no such hosts.

    Hosts are compared by the share of the VM's CPU and memory that they lack, then by id.
    """
    found = measure_capacity(snapshot, request, catalog).hosts
    hosts = snapshot.hosts
    need_mhz, need_mib = request.cpu_number * request.cpu_mhz, request.memory_mib
    at = (found.excluded_by(cpu.RULE, memory.RULE)).nonzero()[0]
    if len(at):
        mhz = np.maximum(need_mhz - (hosts.cpu_limit - hosts.cpu_used)[at], 0)
        mib = np.maximum(need_mib - (hosts.memory_limit - hosts.memory_used)[at], 0)
        lacking = mhz / max(need_mhz, 1) + mib / max(need_mib, 1)
        best = np.lexsort((hosts.id[at], lacking))[0]
        return Shortage(int(hosts.id[at[best]]), int(mhz[best]), int(mib[best]))
    at = (found.excluded_by(storage.RULE)).nonzero()[0]
    sizes = [disk.size_bytes for disk in request.disks if disk.storage_type is StorageType.SHARED]
    if not len(at) or not sizes:
        return None
    return _of_storage(snapshot, at, max(sizes))


def _of_storage(snapshot: ZoneSnapshot, at: Ints, size: int) -> Shortage | None:
    pools, hosts = snapshot.pools, snapshot.hosts
    free = np.where(pools.up & (pools.host < 0), np.maximum(pools.limit - pools.allocated, 0), -1)
    of_zone = int(free[pools.cluster < 0].max(initial=-1))
    own = np.full(len(snapshot.clusters.id), of_zone, dtype=np.int64)
    in_cluster = pools.cluster >= 0
    np.maximum.at(own, pools.cluster[in_cluster], free[in_cluster])
    reach = own[hosts.cluster[at]]
    best = np.lexsort((hosts.id[at], -reach))[0]
    missing = size - max(int(reach[best]), 0)
    return Shortage(int(hosts.id[at[best]]), 0, 0, missing) if missing > 0 else None
