"""How many VMs each cluster takes: its hosts' slots, capped by storage and by its thresholds."""

from dataclasses import dataclass, replace

import numpy as np

from bulkdeploy.domain.topology import StorageType
from bulkdeploy.placement.candidates import find_candidates
from bulkdeploy.placement.hosts import Rack
from bulkdeploy.placement.model import Ints, PlacementRequest, Reason, ZoneSnapshot
from bulkdeploy.placement.packing import Packing, pack
from bulkdeploy.placement.pools import PoolTable, Volumes, local_pools, rows_of
from bulkdeploy.placement.shared_storage import SharedStorage, shared_storage
from bulkdeploy.placement.sieve import Sieve
from bulkdeploy.placement.slots import ClusterUse, cluster_use, host_slots, needs_one_host, threshold_slots, total


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The candidates' own pools (a row per host of the rack) and how they fill."""

    volumes: Volumes
    table: PoolTable
    packing: Packing

    def pools_for(self, vms: Ints) -> Ints:
        """Positions of pools for so many VMs per host: a line per VM, host after host, a column per disk."""
        row = np.repeat(np.arange(len(vms), dtype=np.int64), vms)
        return self.table.pool[row[:, np.newaxis], self.packing.columns(vms)]


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the candidates hold. Clusters are numbered in order of their ids, all of them.

    ``order``: their positions in the columns; ``use`` alone is in the columns' order. ``room``: how many
    VMs each takes, with zone-wide storage taken as endless; ``alone``: with zone-wide storage as it is,
    were no other cluster to use it. Neither is cut to the number asked for, so that each VM in a cluster
    leaves exactly one slot less.
    """

    sieve: Sieve
    order: Ints
    rack: Rack
    use: ClusterUse
    room: Ints
    alone: Ints
    local: LocalStorage | None
    shared: SharedStorage | None


def measure_rooms(snapshot: ZoneSnapshot, request: PlacementRequest) -> Rooms:
    """Apply every rule, in the order of ``Reason``, and count what is left."""
    sieve = find_candidates(snapshot, request)
    slots = host_slots(snapshot.hosts, request, sieve)
    order, number = _numbered(snapshot.clusters.id)
    rack = _rack(snapshot, sieve, number, slots)
    local = None
    volumes = Volumes.of(request.disks, StorageType.LOCAL)
    if volumes.sizes:
        rack, local = _store_locally(snapshot, volumes, rack)
        sieve.drop_at(rack.at[rack.slots == 0], Reason.STORAGE)
    room = total(rack.cluster, rack.slots, len(order))
    shared, alone = None, room
    volumes = Volumes.of(request.disks, StorageType.SHARED)
    if volumes.sizes:
        shared = shared_storage(snapshot, request, volumes, order, room)
        room, alone = np.minimum(room, shared.room), np.minimum(room, shared.alone)
        sieve.drop_clusters((room == 0)[number], Reason.STORAGE)
    use = cluster_use(snapshot)
    top = threshold_slots(snapshot.clusters, use, request)[order]
    room, alone = np.minimum(room, top), np.minimum(alone, top)
    sieve.drop_clusters((room == 0)[number], Reason.CLUSTER_THRESHOLD)
    rooms = Rooms(sieve, order, rack, use, room, alone, local, shared)
    return _on_one_host(snapshot, rooms) if needs_one_host(request) else rooms


def suitable_hosts(snapshot: ZoneSnapshot, request: PlacementRequest) -> Ints:
    """The ids of all hosts that could take one VM of the request."""
    rooms = measure_rooms(snapshot, request)
    rack = rooms.rack
    return snapshot.hosts.id[rack.at[(rack.slots > 0) & (rooms.alone[rack.cluster] > 0)]]


def _numbered(ids: Ints) -> tuple[Ints, Ints]:
    """Positions in order of id, and for each position its number in that order."""
    order = np.argsort(ids, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(ids), dtype=np.int64)
    return order, number


def _rack(snapshot: ZoneSnapshot, sieve: Sieve, number: Ints, slots: Ints) -> Rack:
    """The hosts that are left, by cluster and id."""
    at = sieve.left()
    cluster = number[snapshot.hosts.cluster[at]]
    ids = snapshot.hosts.id[at]
    if not _ascending(ids):
        by_id = np.argsort(ids)
        at, cluster = at[by_id], cluster[by_id]
    if not _ascending(cluster):
        key = (cluster << 32) | np.arange(len(at), dtype=np.int64)
        key.sort()
        by_cluster = key & 0xFFFFFFFF
        at, cluster = at[by_cluster], cluster[by_cluster]
    return Rack(at, cluster, slots[at])


def _ascending(values: Ints) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _store_locally(snapshot: ZoneSnapshot, volumes: Volumes, rack: Rack) -> tuple[Rack, LocalStorage]:
    table = rows_of(local_pools(snapshot, volumes), rack.at)
    packing = pack(table, volumes.sizes, rack.slots, np.zeros(len(volumes.sizes), dtype=bool))
    return Rack(rack.at, rack.cluster, packing.held()), LocalStorage(volumes, table, packing)


def _on_one_host(snapshot: ZoneSnapshot, rooms: Rooms) -> Rooms:
    """Keep only the host with most room, counting what its cluster takes.

    Ties: the cluster with fewest of the owner's VMs, then the lower ids. The choice does not look at the
    number of VMs asked for, so that a batch in two calls ends on the same host as in one.
    """
    rack = rooms.rack
    slots = np.minimum(rack.slots, rooms.alone[rack.cluster])
    kept = np.zeros_like(slots)
    room = np.zeros_like(rooms.room)
    if slots.any():
        owner_vms = snapshot.clusters.owner_vms[rooms.order][rack.cluster]
        chosen = np.lexsort((owner_vms, -slots))[0]
        kept[chosen] = slots[chosen]
        room[rack.cluster[chosen]] = slots[chosen]
        rooms.sieve.drop_at(rack.at[kept == 0], Reason.AFFINITY)
    one = Rack(rack.at, rack.cluster, kept)
    return replace(rooms, rack=one, room=room, alone=room)
