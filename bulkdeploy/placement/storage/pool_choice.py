"""The choice of pools for the disks of placed VMs, after the number of VMs per cluster is known.

The capacity was counted by first fit. If all disks of a VM may be stored in the same pools and a cluster (or the
zone) has pools for complete VMs, the VMs are distributed evenly instead: each VM goes with all its disks to the
pool with the most free capacity, so that no pool gets the whole batch.
"""

from collections.abc import Sequence

import numpy as np

from bulkdeploy.domain.infrastructure.topology import StorageType
from bulkdeploy.placement.dispersion import fill_levels, interleave
from bulkdeploy.placement.model import Disk, Ints, ZoneSnapshot
from bulkdeploy.placement.storage.pools import (
    PoolTable,
    Volumes,
    cluster_pools,
    local_pools,
    rows_of,
    with_zone_pools,
    zone_pools,
)
from bulkdeploy.placement.storage.shared_storage import SharedStorage
from bulkdeploy.placement.storage.zone_storage import Grant


def choose_shared_pools(storage: SharedStorage, vms: Ints, grants: Sequence[Grant]) -> Ints:
    """Return positions of pools: a row per VM, cluster after cluster, and a column per shared disk."""
    used = vms.nonzero()[0]
    own, vms = rows_of(storage.own, used), vms[used]
    disks = range(len(storage.volumes.sizes))
    whole = _whole_vms(own, storage.volumes.sizes, disks)
    even = whole.sum(axis=1) >= vms if _in_the_same_pools(storage.own, disks) else np.zeros(len(vms), dtype=bool)
    if grants:  # VMs that spill to zone-wide pools get their pools by first fit
        even &= vms <= storage.packing.vms_in_own_pools()[used].min(axis=1)
    row = np.arange(len(vms), dtype=np.int64).repeat(vms)
    if even.all():
        return own.pool[row, _evenly(whole, vms)][:, np.newaxis].repeat(len(disks), axis=1)
    every = np.zeros(len(storage.own.pool), dtype=np.int64)
    every[used] = vms
    column = storage.packing.columns(every)
    if even.any():
        column[even[row]] = _evenly(whole[even], vms[even])[:, np.newaxis]
    pool = np.full_like(column, -1)
    if own.width:
        pool = np.where(column >= 0, own.pool[row[:, np.newaxis], np.maximum(column, 0)], -1)
    for spilled in {grant.disks for grant in grants}:
        lines = _lines_that_spill(column, spilled)
        of_zone = _zone_columns(storage, [grant for grant in grants if grant.disks == spilled], grants)
        pool[lines[:, np.newaxis], np.array(spilled)] = storage.zone.pool[0, of_zone]
    return pool


def emptiest_pool(snapshot: ZoneSnapshot, disk: Disk, host_id: int, hypervisor: str) -> int | None:
    """Return the id of the pool with the most free space that a host can access and that fits the disk.

    Returns None if there is no such pool. The function is for a single volume that another VM can get later, so
    pools of the cluster have no precedence over pools of the zone.
    """
    volumes = Volumes.of((disk,), disk.storage_type)
    (host,) = (snapshot.hosts.id == host_id).nonzero()[0]
    if disk.storage_type is StorageType.LOCAL:
        table = rows_of(local_pools(snapshot, volumes), np.array([host]))
    else:
        _, number = snapshot.clusters_in_order
        own = rows_of(cluster_pools(snapshot, volumes), number[snapshot.hosts.cluster[[host]]])
        table = with_zone_pools(own, zone_pools(snapshot, hypervisor, volumes))
    taking = (table.fits[0, 0] & (table.free[0] >= disk.size_bytes)).nonzero()[0]
    ids = snapshot.pools.id[table.pool[0, taking]]
    in_order = np.lexsort((ids, -table.free[0, taking]))
    return int(ids[in_order[0]]) if len(taking) else None


def _lines_that_spill(column: Ints, disks: Sequence[int]) -> Ints:
    """Return the rows of the VMs whose disks in the zone's pools are exactly ``disks``."""
    wanted = np.zeros(column.shape[1], dtype=bool)
    wanted[list(disks)] = True
    return np.flatnonzero(((column < 0) == wanted).all(axis=1))


def _zone_columns(storage: SharedStorage, same: Sequence[Grant], grants: Sequence[Grant]) -> Ints:
    """Return the zone's columns for VMs with the same disks in its pools: a row per VM, a column per disk."""
    disks = same[0].disks
    vms = np.array([grant.vms for grant in same], dtype=np.int64)
    alone = len(same) == len(grants)
    whole = _whole_vms(storage.zone, storage.volumes.sizes, disks)
    if alone and _in_the_same_pools(storage.zone, disks) and whole.sum() >= vms.sum():
        return _evenly(whole, vms.sum(keepdims=True))[:, np.newaxis].repeat(len(disks), axis=1)
    return np.repeat(np.array([grant.columns for grant in same], dtype=np.int64), vms, axis=0)


def _in_the_same_pools(table: PoolTable, disks: Sequence[int]) -> bool:
    """Return whether all of these disks can be stored in the same pools."""
    return not any((table.fits[disk] != table.fits[disks[0]]).any() for disk in disks[1:])


def _whole_vms(table: PoolTable, sizes: Sequence[int], disks: Sequence[int]) -> Ints:
    """Return how many VMs fit into each pool with all these disks."""
    bundle = max(sum(sizes[disk] for disk in disks), 1)
    return np.where(table.fits[disks[0]], table.free // bundle, 0)


def _evenly(free_vms: Ints, vms: Ints) -> Ints:
    """Return the column of the pool that each VM gets, for all VMs of the first row, then of the second, and so on.

    ``free_vms`` is the number of VMs that each pool (column) of each row can store. Each VM gets the pool of its
    row that can store most VMs at that time.
    """
    segment, column = free_vms.nonzero()
    capacity = free_vms[segment, column]
    share = fill_levels(-capacity, 1, capacity, segment, vms)
    return column.repeat(share)[interleave(segment, share)]
