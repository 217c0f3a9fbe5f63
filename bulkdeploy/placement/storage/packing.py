"""The number of VMs whose disks fit into the pools of each row, by first fit, for all rows at once.

The result is the same as if VMs came one at a time: each disk goes to the first pool of the row, in the table's
order, that may store the disk and has enough free space. Since the VMs are equal, many consecutive VMs use the same
pools until one of these is too full. The loop makes one step per such run, not per VM.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bulkdeploy.placement.dispersion import fill_in_order
from bulkdeploy.placement.fitting import ENDLESS
from bulkdeploy.placement.model import Flags, Ints
from bulkdeploy.placement.storage.pools import PoolTable


@dataclass(frozen=True, slots=True)
class Packing:
    """Runs of VMs whose disks are in the same pools, by row, in the order in which the row is filled.

    ``column`` has a row per run and a column per disk. It contains the pool's column in the table, or -1 for a disk
    that did not fit and goes to the zone's pools.
    """

    rows: int
    row: Ints
    count: Ints
    column: Ints

    def vms_per_row(self) -> Ints:
        """Return the number of VMs per row."""
        return self._per_row(self.count)

    def vms_in_own_pools(self) -> Ints:
        """Return the number of VMs per row and disk that have this disk in the row's own pools.

        Pools only get fuller, so these are always the row's first VMs.
        """
        disks = range(self.column.shape[1])
        per_disk = [self._per_row(np.where(self.column[:, disk] >= 0, self.count, 0)) for disk in disks]
        return np.stack(per_disk, axis=1)

    def columns(self, vms: Ints) -> Ints:
        """Return the columns of the pools for the first VMs of each row: row after row, one line per VM.

        ``vms`` has the number of VMs per row.
        """
        return np.repeat(self.column, fill_in_order(self.count, self.row, vms), axis=0)

    def _per_row(self, amounts: Ints) -> Ints:
        return np.bincount(self.row, weights=amounts, minlength=self.rows).astype(np.int64)


@dataclass(frozen=True, slots=True)
class OneDiskPacking:
    """The packing of VMs with one disk: one run per pool, and a last run for disks that go to the zone's pools.

    ``fitting`` is the number of disks that each pool of each row can take. ``most`` is the maximum number of VMs
    per row. ``spills`` allows the zone's pools.
    """

    fitting: Ints
    most: Ints
    spills: bool

    def vms_per_row(self) -> Ints:
        """Return the number of VMs per row."""
        return self.most if self.spills else self._in_own_pools()

    def vms_in_own_pools(self) -> Ints:
        """Return the number of VMs per row that have their disk in the row's own pools."""
        return self._in_own_pools()[:, np.newaxis]

    def columns(self, vms: Ints) -> Ints:
        """Return the columns of the pools for the first VMs of each row: row after row, one line per VM.

        ``vms`` has the number of VMs per row.
        """
        vms = vms[:, np.newaxis]
        before = self.fitting.cumsum(axis=1) - self.fitting
        count = np.minimum(np.maximum(vms - before, 0), self.fitting)
        column: Ints = np.append(np.arange(count.shape[1], dtype=np.int64), -1)
        count = np.concatenate((count, vms - count.sum(axis=1, keepdims=True)), axis=1)
        column = np.tile(column, len(vms)).repeat(count.ravel())
        return column[:, np.newaxis]

    def _in_own_pools(self) -> Ints:
        held: Ints = np.minimum(self.most, self.fitting.sum(axis=1))
        return held


def pack(table: PoolTable, sizes: Sequence[int], most: Ints, spills: Flags) -> Packing | OneDiskPacking:
    """Fill every row with up to ``most`` VMs.

    ``spills`` marks disks that may go to the zone's pools when the row's own pools are full. The zone's pools are
    treated as unlimited here. A row ends at the first VM with another disk that does not fit.
    """
    if len(sizes) == 1:
        fitting = np.where(table.fits[0], table.free // sizes[0] if sizes[0] else ENDLESS, 0)
        return OneDiskPacking(fitting, most, bool(spills[0]))
    rows, counts, columns = [], [], []
    active = (most > 0).nonzero()[0]
    left = most[active]
    free = table.free[active]
    while len(active):
        column, after, stored = _one_vm(table.fits[:, active], free, sizes, spills)
        active, left, column = active[stored], left[stored], column[stored]
        free, load = free[stored], (free - after)[stored]
        run = np.minimum(left, _runs(free, load))
        rows.append(active)
        counts.append(run)
        columns.append(column)
        free = free - run[:, np.newaxis] * load
        left = left - run
        more = left > 0
        active, left, free = active[more], left[more], free[more]
    return _by_row(len(table.pool), rows, counts, columns, len(sizes))


def _one_vm(fits: Flags, free: Ints, sizes: Sequence[int], spills: Flags) -> tuple[Ints, Ints, Flags]:
    """Try to place the disks of one more VM in each row.

    Returns, per row, the column of the pool of each disk, the free space afterwards, and whether all disks fit.
    ``spills`` marks disks that may go to the zone's pools.
    """
    rows, width = free.shape
    column = np.full((rows, len(sizes)), -1, dtype=np.int64)
    stored = np.ones(rows, dtype=bool)
    after = free.copy()
    for disk, size in enumerate(sizes):
        if width:
            takes = fits[disk] & (after >= size)
            found = (takes.any(axis=1)).nonzero()[0]
            column[found, disk] = takes[found].argmax(axis=1)
            after[found, column[found, disk]] -= size
        if not spills[disk]:
            stored &= column[:, disk] >= 0
    return column, after, stored


def _runs(free: Ints, load: Ints) -> Ints:
    """Return the number of VMs with this load that fit per row. It is the greatest integer if the load is zero."""
    endless = np.iinfo(np.int64).max
    if free.shape[1] == 0:
        return np.full(len(free), endless, dtype=np.int64)
    fitting: Ints = np.where(load > 0, free // np.maximum(load, 1), endless).min(axis=1)
    return fitting


def _by_row(table_rows: int, rows: list[Ints], counts: list[Ints], columns: list[Ints], disks: int) -> Packing:
    row = np.concatenate([*rows, np.zeros(0, dtype=np.int64)])
    order = np.argsort(row, kind="stable")
    column = np.concatenate([*columns, np.zeros((0, disks), dtype=np.int64)])
    return Packing(
        table_rows, row[order], np.concatenate([*counts, np.zeros(0, dtype=np.int64)])[order], column[order]
    )
