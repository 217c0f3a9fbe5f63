"""The primary storage pools that can store each disk of a VM (cloudstack-protocol.md 6.3).

A pool can store a disk if the pool is up, has the right scope, and has all tags of the disk. A zone-wide pool must
also be for the VM's hypervisor or for any. Disks of storage type ``local`` are stored in pools of the VM's host,
and ``shared`` disks in pools of its cluster or of the zone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bulkdeploy.domain.infrastructure.topology import StorageType
from bulkdeploy.placement.model import Disk, Flags, Ints, ZoneSnapshot
from bulkdeploy.placement.tags import carriers


@dataclass(frozen=True, slots=True)
class PoolTable:
    """The pools of each row. A row is a host, a cluster, or the zone.

    ``pool`` has positions in the snapshot's columns, or -1 if a row has fewer pools than the widest row. ``fits``
    states for each disk (first axis) whether a pool can take it. Columns are in the order in which pools are tried:
    pools that the fewest of the VM's disks can use first, then by id.
    """

    pool: Ints
    free: Ints
    fits: Flags

    @property
    def width(self) -> int:
        """The number of pools of the row with most pools."""
        return int(self.pool.shape[1])

    @property
    def serves(self) -> Flags:
        """For each disk, whether any pool of any row can store it."""
        return np.array([fits.any() for fits in self.fits], dtype=bool)


@dataclass(frozen=True, slots=True)
class Volumes:
    """The disks of one storage type, and their positions among the disks of the request."""

    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    tags: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, disks: Sequence[Disk], storage_type: StorageType) -> "Volumes":
        """Return the disks of one storage type, in their order."""
        chosen = [
            (at, disk.size_bytes, disk.tags) for at, disk in enumerate(disks) if disk.storage_type is storage_type
        ]
        return cls(*zip(*chosen, strict=True)) if chosen else cls((), (), ())


def local_pools(snapshot: ZoneSnapshot, volumes: Volumes) -> PoolTable:
    """Return a table of the pools of hosts' own disks, with a row per host."""
    pools = snapshot.pools
    rows = len(snapshot.hosts.id)
    return _table(snapshot, volumes, ("local pools",), lambda: (np.where(pools.up, pools.host, -1), rows))


def cluster_pools(snapshot: ZoneSnapshot, volumes: Volumes) -> PoolTable:
    """Return a table of the pools that all hosts of a cluster can access, with a row per cluster by id."""
    pools = snapshot.pools
    _, number = snapshot.clusters_in_order

    def rows() -> tuple[Ints, int]:
        usable = pools.up & (pools.host < 0) & (pools.cluster >= 0)
        row = np.full(len(pools.id), -1, dtype=np.int64)
        row[usable] = number[pools.cluster[usable]]
        return row, len(number)

    return _table(snapshot, volumes, ("cluster pools",), rows)


def zone_pools(snapshot: ZoneSnapshot, hypervisor: str, volumes: Volumes) -> PoolTable:
    """Return a table with one row: the zone-wide pools for a hypervisor."""
    pools = snapshot.pools

    def rows() -> tuple[Ints, int]:
        usable = pools.up & (pools.host < 0) & (pools.cluster < 0)
        for position in usable.nonzero()[0]:
            usable[position] = pools.hypervisor[position] in ("", hypervisor)
        return np.where(usable, 0, -1), 1

    return _table(snapshot, volumes, ("zone pools", hypervisor), rows)


def _table(
    snapshot: ZoneSnapshot, volumes: Volumes, name: tuple[str, ...], rows: Callable[[], tuple[Ints, int]]
) -> PoolTable:
    """Return the pools by their row (-1: no row) with their present free space.

    The layout is computed once per snapshot.
    """
    pool, fits = snapshot.once((*name, volumes.tags), lambda: _laid_out(snapshot, volumes, *rows()))
    if not pool.shape[1]:
        return PoolTable(pool, pool, fits)
    pools = snapshot.pools
    free = np.maximum(pools.limit - pools.allocated, 0)[pool]
    free[pool < 0] = 0
    return PoolTable(pool, free, fits)


def _laid_out(snapshot: ZoneSnapshot, volumes: Volumes, row: Ints, rows: int) -> tuple[Ints, Flags]:
    """Return the layout of a table: its ``pool`` and ``fits`` arrays."""
    pools, disks = snapshot.pools, len(volumes.sizes)
    fits = np.zeros((disks, len(pools.id)), dtype=bool)
    for disk, tags in enumerate(volumes.tags):
        fits[disk] = (row >= 0) & carriers(snapshot.tag_sets, tags)[pools.tag_set]
    wanted_by = fits.sum(axis=0)
    chosen = wanted_by.nonzero()[0]
    chosen = chosen[np.lexsort((pools.id[chosen], wanted_by[chosen], row[chosen]))]
    at_row = row[chosen]
    column = np.arange(len(chosen), dtype=np.int64) - np.searchsorted(at_row, at_row)
    width = int(column.max()) + 1 if len(chosen) else 0
    pool = np.full((rows, width), -1, dtype=np.int64)
    taking = np.zeros((disks, rows, width), dtype=bool)
    pool[at_row, column] = chosen
    taking[:, at_row, column] = fits[:, chosen]
    return pool, taking


def rows_of(table: PoolTable, rows: Ints) -> PoolTable:
    """Return the table of the given rows only."""
    return PoolTable(table.pool[rows], table.free[rows], table.fits[:, rows])


def with_zone_pools(table: PoolTable, zone: PoolTable) -> PoolTable:
    """Return a table with the pools of each row, followed by the zone's pools.

    Each row gets the zone's pools as if no other row used them.
    """
    rows = len(table.pool)
    return PoolTable(
        np.concatenate((table.pool, np.repeat(zone.pool, rows, axis=0)), axis=1),
        np.concatenate((table.free, np.repeat(zone.free, rows, axis=0)), axis=1),
        np.concatenate((table.fits, np.repeat(zone.fits, rows, axis=1)), axis=2),
    )
