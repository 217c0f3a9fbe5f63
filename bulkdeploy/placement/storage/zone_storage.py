"""Zone-wide pools, the only resource that clusters share: filling one cluster leaves less for others.

A cluster's first VMs have their disks in the cluster's own pools. From a certain VM on, a disk *spills* into the
zone's pools: first one disk of each VM, later perhaps all. VMs come in the strategy's order, and each spilled disk
goes to the first zone-wide pool that may store it and has enough free space. As long as none of these pools becomes
too full, all VMs that spill the same disks use the same pools. Such a stretch is found by binary search over the
number of VMs. When some disks find no pool any more, the clusters that would spill them are closed, and the
strategy continues with the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bulkdeploy.placement.fitting import ENDLESS
from bulkdeploy.placement.model import Ints
from bulkdeploy.placement.storage.packing import pack
from bulkdeploy.placement.storage.pools import PoolTable
from bulkdeploy.placement.strategy import Filling


@dataclass(frozen=True, slots=True)
class Spill:
    """A set of disks, by number, that some VMs store in the zone's pools.

    In each open cluster these are the VMs from number ``first`` up to, not including, ``end``.
    """

    disks: tuple[int, ...]
    first: Ints
    end: Ints

    def vms(self, taken: Ints) -> int:
        """Return how many VMs use the zone's pools for these disks after the clusters have taken ``taken`` VMs."""
        return int(np.maximum(np.minimum(taken, self.end) - self.first, 0).sum())


@dataclass(frozen=True, slots=True)
class Grant:
    """The columns of the zone's table, one per disk, that ``vms`` VMs use for the disks that they spilled."""

    disks: tuple[int, ...]
    columns: tuple[int, ...]
    vms: int


@dataclass(frozen=True, slots=True)
class ZoneStorage:
    """The zone-wide pools, and the disks that do not fit into pools of clusters.

    ``table`` has one row. ``sizes`` are the sizes of the disks of one VM.
    """

    table: PoolTable
    sizes: Sequence[int]
    spills: tuple[Spill, ...]

    @classmethod
    def of(cls, table: PoolTable, sizes: Sequence[int], kept: Ints, capacity: Ints) -> "ZoneStorage":
        """Return the zone-wide storage, given how many VMs keep each disk in their cluster's own pools.

        ``capacity`` is the number of VMs that each cluster can take.
        """
        sets: set[tuple[int, ...]] = set()
        for order in np.unique(np.argsort(kept, axis=1, kind="stable"), axis=0).tolist():
            sets |= {tuple(sorted(order[:length])) for length in range(1, len(order) + 1)}
        spills = []
        for disks in sorted(sets):
            others = [disk for disk in range(len(sizes)) if disk not in disks]
            first = kept[:, list(disks)].max(axis=1)
            end = kept[:, others].min(axis=1, initial=np.iinfo(np.int64).max)
            if (first < np.minimum(end, capacity)).any():
                spills.append(Spill(disks, first, end))
        return cls(table, sizes, tuple(spills))

    def columns(self, disks: Sequence[int], free: Ints) -> tuple[int, ...] | None:
        """Return the pools for these disks of one VM, first fit, or None if some disk does not fit."""
        after = free.copy()
        chosen = []
        for disk in disks:
            takes = (self.table.fits[disk, 0] & (after >= self.sizes[disk])).nonzero()[0]
            if len(takes) == 0:
                return None
            chosen.append(int(takes[0]))
            after[takes[0]] -= self.sizes[disk]
        return tuple(chosen)

    def capacity(self, filling: Filling, capacity: Ints) -> int:
        """Return the number of VMs that all open clusters can take together.

        They share the zone's pools.
        """
        if not self.spills:
            return int(capacity.sum())
        if len(self.spills) > 1:
            return int(share_zone(filling, capacity, self, int(capacity.sum()))[0].sum())
        spill = self.spills[0]
        own = np.minimum(capacity, spill.first)
        disks = list(spill.disks)
        table = PoolTable(self.table.pool, self.table.free, self.table.fits[disks])
        sizes = [self.sizes[disk] for disk in disks]
        shared = pack(table, sizes, np.array([ENDLESS]), np.zeros(len(disks), dtype=bool)).vms_per_row()
        return int(own.sum() + min(int(shared[0]), int((capacity - own).sum())))


def share_zone(filling: Filling, capacity: Ints, zone: ZoneStorage, count: int) -> tuple[Ints, list[Grant]]:
    """Distribute at most ``count`` VMs over the open clusters. Return the number of VMs per cluster and the grants.

    A grant names the zone-wide pools for disks that do not fit into a cluster's own pools.
    """
    taken = np.zeros(len(capacity), dtype=np.int64)
    capacity = capacity.copy()
    free = zone.table.free[0].copy()
    grants: list[Grant] = []
    while count > 0 and capacity.any():
        stretch = _Stretch(filling, zone, taken, capacity, free)
        added = stretch.longest(min(count, int(capacity.sum())))
        if not added.any():
            for spill in stretch.stuck():
                np.minimum(capacity, np.maximum(spill.first - taken, 0), out=capacity)
            continue
        grants += stretch.grants(added)
        free = free - stretch.load(added)
        taken, capacity, count = taken + added, capacity - added, count - int(added.sum())
    return taken, grants


class _Stretch:
    """A sequence of VMs during which each cluster uses the same pools of the zone."""

    def __init__(self, filling: Filling, zone: ZoneStorage, taken: Ints, capacity: Ints, free: Ints) -> None:
        self._filling = filling
        self._zone = zone
        self._taken = taken
        self._capacity = capacity
        self._free = free
        self._columns = [zone.columns(spill.disks, free) for spill in zone.spills]

    def longest(self, most: int) -> Ints:
        """Return the number of VMs per cluster in the longest stretch that fits, at most ``most`` VMs in all."""
        shortest, fitting = 0, np.zeros(len(self._taken), dtype=np.int64)
        longest, middle = most, most
        while shortest < longest:
            added = self._filling(self._taken, self._capacity, middle)
            if self._fits(added):
                shortest, fitting = middle, added
            else:
                longest = middle - 1
            middle = shortest + (longest - shortest + 1) // 2
        return fitting

    def stuck(self) -> list[Spill]:
        """Return the spills whose disks fit into no zone-wide pool."""
        return [spill for spill, columns in zip(self._zone.spills, self._columns, strict=True) if columns is None]

    def load(self, added: Ints) -> Ints:
        """Return the bytes that these VMs store in each of the zone's pools."""
        load = np.zeros(len(self._free), dtype=np.int64)
        for grant in self.grants(added):
            for disk, column in zip(grant.disks, grant.columns, strict=True):
                load[column] += grant.vms * self._zone.sizes[disk]
        return load

    def grants(self, added: Ints) -> list[Grant]:
        """Return the pools of these VMs' spilled disks."""
        return [
            Grant(spill.disks, columns, vms)
            for spill, columns in zip(self._zone.spills, self._columns, strict=True)
            if columns is not None and (vms := self._vms(spill, added))
        ]

    def _fits(self, added: Ints) -> bool:
        if any(self._vms(spill, added) for spill in self.stuck()):
            return False
        return bool((self.load(added) <= self._free).all())

    def _vms(self, spill: Spill, added: Ints) -> int:
        return spill.vms(self._taken + added) - spill.vms(self._taken)
