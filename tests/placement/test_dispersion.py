"""Filling by levels, filling in order, and the order in which VMs alternate."""

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.placement.dispersion import fill_in_order, fill_levels, interleave, within
from tests.support.runs.properties import examples

MEMBERS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-20, 20), st.integers(1, 5), st.integers(0, 9)), max_size=12
)


def segmented(members: list[tuple[int, int, int, int]]) -> tuple[np.ndarray, ...]:
    """Segment, start, step and room as columns, segments renumbered without gaps."""
    members = sorted(members, key=lambda member: member[0])
    numbers = {segment: number for number, segment in enumerate(sorted({member[0] for member in members}))}
    rows = [(numbers[segment], start, step, capacity) for segment, start, step, capacity in members]
    return tuple(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)) if rows else ()


@examples(200)
@given(members=MEMBERS, data=st.data())
def test_filling_by_levels_is_giving_each_vm_to_the_lowest(
    members: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    """The binary search ends where a heap that takes the lowest member for each VM ends."""
    if not members:
        return
    segment, start, step, capacity = segmented(members)
    wanted = np.array(
        [data.draw(st.integers(0, int(capacity[segment == number].sum()))) for number in range(segment[-1] + 1)]
    )
    expected = np.zeros_like(capacity)
    for number, count in enumerate(wanted):
        heap = [(start[at], at) for at in np.flatnonzero((segment == number) & (capacity > 0))]
        heapq.heapify(heap)
        for _ in range(count):
            level, at = heapq.heappop(heap)
            expected[at] += 1
            if expected[at] < capacity[at]:
                heapq.heappush(heap, (level + step[at], at))
    np.testing.assert_array_equal(fill_levels(start, step, capacity, segment, wanted), expected)


def test_equal_levels_are_served_in_the_order_of_the_members() -> None:
    """Five VMs over four empty members: the first gets the odd one."""
    filled = fill_levels(np.zeros(4, int), 1, np.full(4, 9), np.zeros(4, int), np.array([5]))
    assert filled.tolist() == [2, 1, 1, 1]


def test_filling_in_order_fills_one_member_before_the_next() -> None:
    """Each segment's VMs fill its members from the first on; a segment without members takes nothing."""
    capacity, segment = np.array([3, 3, 3, 2, 2]), np.array([0, 0, 0, 2, 2])
    assert fill_in_order(capacity, segment, np.array([4, 7, 9])).tolist() == [3, 1, 0, 2, 2]


def test_nothing_to_fill_is_no_error() -> None:
    """Without members nobody gets anything."""
    nothing = np.zeros(0, dtype=np.int64)
    assert fill_levels(nothing, 1, nothing, nothing, np.zeros(1, int)).tolist() == []
    assert fill_in_order(nothing, nothing, np.array([3])).tolist() == []
    assert interleave(nothing, nothing).tolist() == []


def test_members_alternate_each_at_its_own_pace() -> None:
    """Four VMs of one member and two of another: the first comes up twice as often."""
    counts = np.array([4, 2])
    member = np.repeat(np.arange(2), counts)[interleave(np.zeros(2, int), counts)]
    assert member.tolist() == [0, 1, 0, 0, 1, 0]


@examples(100)
@given(counts=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=8).map(sorted))
def test_alternating_loses_no_vm_and_keeps_segments_together(counts: list[tuple[int, int]]) -> None:
    """Every VM comes up once, segment after segment, and a member's VMs in their order."""
    segment, number = (np.array(column, dtype=np.int64) for column in zip(*counts, strict=True))
    order = interleave(segment, number)
    assert sorted(order.tolist()) == list(range(int(number.sum())))
    member = np.repeat(np.arange(len(number)), number)[order]
    assert (np.diff(segment[member]) >= 0).all()
    for at in range(len(number)):
        assert within(number)[order][member == at].tolist() == list(range(number[at]))


@examples(100)
@given(counts=st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_every_stretch_of_the_order_has_each_members_share(counts: list[int]) -> None:
    """After any number of VMs each member had its share of them, give or take one per member."""
    number = np.array(counts)
    order = interleave(np.zeros_like(number), number)
    member = np.repeat(np.arange(len(number)), number)[order]
    for length in range(1, len(member) + 1):
        seen = np.bincount(member[:length], minlength=len(number))
        due = number * length / number.sum()
        assert (abs(seen - due) <= len(number)).all()
