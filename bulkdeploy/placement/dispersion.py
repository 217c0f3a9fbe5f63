"""The distribution of a number of VMs over members with a present count and a capacity.

A *member* is a cluster, a pod, a host or a storage pool. Members belong to *segments* (the clusters of a zone, the
hosts of a cluster). Filling by levels is the result if VMs come one at a time and each goes to the member of its
segment with the lowest level, which then rises by one step. Since the VMs of a batch are equal, the result is
computed without placing one after the other: a binary search finds the level up to which everything is filled, for
all segments at once.
"""

import numpy as np

from bulkdeploy.placement.model import Ints

FRACTION_BITS = 24


def fill_levels(start: Ints, step: Ints | int, capacity: Ints, segment: Ints, wanted: Ints) -> Ints:
    """Return the number of VMs per member if each VM goes to the member with the lowest level that has capacity.

    ``start`` is the level of a member (below 2**53), and ``step`` (at least 1) the amount by which one VM raises
    it. Members are sorted by ``segment`` (0, 1, ... without gaps) and, inside a segment, in the order that decides
    between equal levels. ``wanted`` has one entry per segment and must not exceed the capacity of the segment.
    """
    if len(start) == 0:
        return np.zeros(0, dtype=np.int64)
    if len(wanted) == 1 and wanted[0] == 1:  # a list of unlike VMs is many of these
        return _lowest(start, capacity)
    first = _first_of_segments(segment, len(wanted))
    capacity = np.minimum(capacity, wanted[segment])
    low = np.minimum.reduceat(start, first)
    high = np.maximum.reduceat(start + step * capacity, first)
    while (low < high).any():
        middle = low + (high - low + 1) // 2
        filled = np.add.reduceat(_below(middle[segment], start, step, capacity), first)
        fits = filled <= wanted
        low = np.where(fits, middle, low)
        high = np.where(fits, high, middle - 1)
    taken: Ints = _below(low[segment], start, step, capacity)
    on_level = (_below(low[segment] + 1, start, step, capacity) > taken).astype(np.int64)
    return taken + fill_in_order(on_level, segment, wanted - np.add.reduceat(taken, first))


def _lowest(start: Ints, capacity: Ints) -> Ints:
    """Return the distribution of one VM: to the first of the lowest members that have capacity."""
    added = np.zeros(len(start), dtype=np.int64)
    roomy = (capacity > 0).nonzero()[0]
    added[roomy[start[roomy].argmin()]] = 1
    return added


def _below(level: Ints, start: Ints, step: Ints | int, capacity: Ints) -> Ints:
    """Return how many VMs each member gets until its level reaches ``level``, at most its ``capacity``.

    The level begins at ``start`` and rises by ``step`` per VM.
    """
    rise: Ints = level - start
    if not (isinstance(step, int) and step == 1):
        rise = np.ceil(rise / step).astype(np.int64)  # exact while levels are below 2**53
    return np.minimum(np.maximum(rise, 0), capacity)


def fill_in_order(capacity: Ints, segment: Ints, wanted: Ints) -> Ints:
    """Return the number of VMs per member if the members of a segment are filled one after the other.

    Members are sorted by ``segment``, which may have gaps. VMs that exceed the capacity of a segment are not
    placed.
    """
    if len(capacity) == 0:
        return np.zeros(0, dtype=np.int64)
    before = capacity.cumsum() - capacity
    before -= before[_first_of_segments(segment, len(wanted))][segment]
    filled: Ints = np.minimum(np.maximum(wanted[segment] - before, 0), capacity)
    return filled


def _first_of_segments(segment: Ints, segments: int) -> Ints:
    """Return the position of the first member of each segment. For a segment without members it is undefined."""
    first = segment.searchsorted(np.arange(segments, dtype=np.int64))
    return np.minimum(first, len(segment) - 1)


def within(counts: Ints) -> Ints:
    """Return the numbers of each member's VMs, counted from 0, member after member."""
    before = counts.cumsum() - counts
    return np.arange(int(counts.sum()), dtype=np.int64) - before.repeat(counts)


def interleave(segment: Ints, counts: Ints) -> Ints:
    """Return an order in which the VMs of a segment alternate between its members, each at its own even rate.

    VMs are numbered member after member (``counts`` VMs per member). The result lists these numbers segment after
    segment, so a member with twice as many VMs appears twice as often. If two members are due at the same time, the
    earlier member comes first.
    """
    total = int(counts.sum())
    if total < 2:
        return np.zeros(total, dtype=np.int64)
    number_bits = total.bit_length()
    fraction_bits = min(FRACTION_BITS, 62 - number_bits - int(segment[-1]).bit_length())
    due = ((2 * within(counts) + 1) << fraction_bits) // (2 * counts).repeat(counts)
    key = (segment.repeat(counts) << fraction_bits) | due
    key = (key << number_bits) | np.arange(total, dtype=np.int64)
    key.sort()
    return key & ((1 << number_bits) - 1)
