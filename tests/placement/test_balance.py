"""What holds for every plan of moves: room, reach, affinity, sets without a common host, a falling score."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.placement.balance import BalanceHosts, BalancePlan, BalanceVms, Score, plan_balance, score_of
from bulkdeploy.placement.model import Flags
from tests.support.runs.properties import examples

GAIN = 0.001
FIRST_HOST, FIRST_VM = 100, 1000


class Problem(NamedTuple):
    """Hosts, VMs and which hosts each kind of VM may be on."""

    hosts: BalanceHosts
    vms: BalanceVms
    reach: Flags

    def plan(self, most_moves: int = 1000, **more: int) -> BalancePlan:
        """The moves."""
        return plan_balance(self.hosts, self.vms, self.reach, most_moves=most_moves, least_gain=GAIN, **more)


def ints(values: list[int]) -> np.ndarray:
    """A column."""
    return np.array(values, dtype=np.int64)


def problem_of(
    limits: list[tuple[int, int, int]],
    clusters: list[int],
    guests: list[tuple[int, int, int, int, int, bool]],
    reach: list[list[bool]],
    apart: dict[int, tuple[int, ...]],
) -> Problem:
    """``limits``: MHz, MiB and VMs of each host; ``guests``: host, MHz, MiB, owner, kind, movable of each VM."""
    host, cpu, memory, owner, kind = (ints([guest[at] for guest in guests]) for at in range(5))
    size = len(limits)

    def used(weights: np.ndarray) -> np.ndarray:
        return np.bincount(host, weights=weights, minlength=size).astype(np.int64)

    hosts = BalanceHosts(
        ints(list(range(FIRST_HOST, FIRST_HOST + size))),
        ints(clusters),
        ints([limit[0] for limit in limits]),
        used(cpu),
        ints([limit[1] for limit in limits]),
        used(memory),
        ints([limit[2] for limit in limits]),
        used(np.ones(len(guests))),
    )
    ids = ints(list(range(FIRST_VM, FIRST_VM + len(guests))))
    movable = np.array([guest[5] for guest in guests], dtype=bool)
    vms = BalanceVms(ids, host, cpu, memory, owner, kind, movable, apart)
    return Problem(hosts, vms, np.array(reach, dtype=bool))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Small zones, some hosts over their limits, some VMs bound."""
    size = draw(st.integers(1, 6))
    limits = [draw(st.tuples(st.integers(4, 40), st.integers(4, 40), st.integers(1, 12))) for _ in range(size)]
    clusters = [draw(st.integers(0, 2)) for _ in range(size)]
    guest = st.tuples(
        *(st.integers(0, size - 1), st.integers(1, 6), st.integers(1, 6), st.integers(0, 3)),
        *(st.integers(0, 1), st.booleans() | st.just(True)),
    )
    guests = draw(st.lists(guest, max_size=25))
    reach = [draw(st.lists(st.booleans() | st.just(True), min_size=size, max_size=size)) for _ in range(2)]
    groups = st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True).map(tuple)
    apart = {vm: draw(groups) for vm in range(len(guests)) if draw(st.integers(0, 3)) == 0}
    return problem_of(limits, clusters, guests, reach, apart)


@examples(80)
@given(problem=problems(), most=st.integers(0, 20))
def test_moves_keep_every_rule_and_lower_the_score(problem: Problem, most: int) -> None:
    """Replayed one by one on plain Python's account: room, reach and groups hold, and the score falls each time."""
    made = problem.plan(most)
    assert made.moves <= most
    hosts, vms = problem.hosts, problem.vms
    where = vms.host.copy()
    before = score_of(hosts, vms)
    assert before == made.before
    for moves in made.sets:
        touched = [host for move in moves for host in (move.from_host_id, move.to_host_id)]
        assert len(touched) == len(set(touched)) > 0
        for move in moves:
            vm, source, destination = (
                move.vm_id - FIRST_VM,
                move.from_host_id - FIRST_HOST,
                move.to_host_id - FIRST_HOST,
            )
            assert (where[vm], vms.movable[vm], problem.reach[vms.reach[vm], destination]) == (source, True, True)
            there = np.flatnonzero(where == destination)
            groups = set(vms.apart.get(vm, ()))
            assert not any(groups & set(vms.apart.get(int(other), ())) for other in there)
            assert vms.cpu[there].sum() + vms.cpu[vm] <= hosts.cpu_limit[destination]
            assert vms.memory[there].sum() + vms.memory[vm] <= hosts.memory_limit[destination]
            assert len(there) + 1 <= hosts.vms_limit[destination]
            where[vm] = destination
            after = _rescored(problem, where)
            assert before.total - after.total == pytest.approx(move.gain)
            assert move.gain >= GAIN
            before = after
    assert before.total == pytest.approx(made.after.total)


def _rescored(problem: Problem, where: np.ndarray) -> Score:
    hosts, vms = problem.hosts, problem.vms
    guests = list(zip(where, vms.cpu, vms.memory, vms.owner, vms.reach, vms.movable, strict=True))
    limits = list(zip(hosts.cpu_limit, hosts.memory_limit, hosts.vms_limit, strict=True))
    moved = problem_of(limits, list(hosts.cluster), guests, problem.reach.tolist(), vms.apart)
    return score_of(moved.hosts, moved.vms)


@examples(40)
@given(problem=problems())
def test_where_it_ends_no_single_move_gains(problem: Problem) -> None:
    """A plan that was not cut short leaves nothing: planned anew from its end, there is no set."""
    made = problem.plan()
    where = problem.vms.host.copy()
    for moves in made.sets:
        for move in moves:
            where[move.vm_id - FIRST_VM] = move.to_host_id - FIRST_HOST
    vms, hosts = problem.vms, problem.hosts
    guests = list(zip(where, vms.cpu, vms.memory, vms.owner, vms.reach, vms.movable, strict=True))
    limits = list(zip(hosts.cpu_limit, hosts.memory_limit, hosts.vms_limit, strict=True))
    moved = problem_of(limits, list(hosts.cluster), guests, problem.reach.tolist(), vms.apart)
    assert moved.plan().sets == ()


def test_an_empty_host_beside_full_ones_is_filled() -> None:
    """Three hosts with four VMs of one owner each, a new one with none: three each, by three moves."""
    guests = [(host, 1, 4, 0, 0, True) for host in (0, 1, 2) for _ in range(4)]
    problem = problem_of([(16, 64, 50)] * 4, [0] * 4, guests, [[True] * 4], {})
    made = problem.plan()
    assert (made.moves, len(made.sets)) == (3, 3)
    assert sorted(move.from_host_id for moves in made.sets for move in moves) == [100, 101, 102]
    assert made.after.total == pytest.approx(0)


def test_a_cluster_gets_room_for_the_loss_of_a_host() -> None:
    """Of two alike pairs of hosts one is so full that neither could stand in for the other: VMs leave that pair."""
    guests = [(host, 1, 10, owner, 0, True) for owner, host in enumerate((0, 0, 0, 0, 1, 1, 1, 1, 2, 3))]
    problem = problem_of([(64, 50, 50)] * 4, [0, 0, 1, 1], guests, [[True] * 4], {})
    made = problem.plan()
    assert made.before.n1 > 0
    assert made.after.n1 == 0


def test_a_gain_of_nothing_is_no_gain() -> None:
    """Without a least gain there would be no end."""
    problem = problem_of([(1, 1, 1)], [0], [], [[True]], {})
    with pytest.raises(ValueError, match="must be positive"):
        plan_balance(problem.hosts, problem.vms, problem.reach, most_moves=1, least_gain=0)
