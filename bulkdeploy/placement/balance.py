"""Moves of running VMs that balance a zone (one file: the score and the moves that lower it).

The score is a sum over hosts, so that the gain of a move depends only on its two hosts and not on the number of
other hosts. Its terms are: the squares of the deviations of each host's share of claimed CPU, and of claimed
memory, from that of all hosts; OWNER_WEIGHT for each pair of an owner's VMs on one host that exceeds even
dispersion; and, per cluster, the part of its largest host's memory for which its other hosts have no free capacity
(N+1). 0 is best.

Moves of one set have no host in common, so they may run at the same time: the gain of a move and the capacity that
it needs do not depend on the other moves. Sets follow each other. Each move gains at least the requested amount, so
the planning ends. This module has no I/O, reads no clock and uses no random numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.model import Flags, Floats, Ints, PlacementRequest, ZoneSnapshot, total

OWNER_WEIGHT = 0.1
"""What one more VM of an owner beside another costs: a host that holds two of them, where even dispersion has one,
weighs as much as one whose memory is a third of it off the mean."""

ROWS_AT_ONCE = 4_000_000
"""Classes of VMs times hosts that are compared at a time: 32 MB for each of a few arrays."""

VALUE = 0.5
"""A set has no move that gains less than this part of its first move's gain: the most valuable ones come first."""

DESTINATIONS = 64
"""Hosts that are kept for each class in each round, best first."""


@dataclass(frozen=True, slots=True)
class BalanceHosts:
    """The hosts of a balance, one entry per host: all hosts that are up and enabled.

    CPU is in MHz and memory in MiB. ``cluster`` is the number of a host's cluster.
    """

    id: Ints
    cluster: Ints
    cpu_limit: Ints
    cpu_used: Ints
    memory_limit: Ints
    memory_used: Ints
    vms_limit: Ints
    vms_used: Ints


@dataclass(frozen=True, slots=True)
class BalanceVms:
    """The VMs on these hosts and their claims, one entry each.

    Attributes:
        host: the position of the VM's host.
        owner: the number of the VM's owner.
        reach: the row of the table of hosts on which the VM may run.
        movable: whether the VM may be moved: it runs, has no unfinished job, and is not bound to its host.
        apart: by position of the VM, the numbers of groups whose VMs must not share a host with it.
    """

    id: Ints
    host: Ints
    cpu: Ints
    memory: Ints
    owner: Ints
    reach: Ints
    movable: Flags
    apart: dict[int, tuple[int, ...]]


class Score(NamedTuple):
    """The distance of hosts from balance, by criterion; 0 is best."""

    cpu: float
    memory: float
    owners: float
    n1: float

    @property
    def total(self) -> float:
        """The sum of all terms. Every move lowers it."""
        return sum(self)


NO_VMS = Score(0.0, 0.0, 0.0, 0.0)
"""The score where nothing is to be balanced."""


class BalanceMove(NamedTuple):
    """A move of one VM from one host to another, by their ids, and the gain: how much it lowers the score."""

    vm_id: int
    from_host_id: int
    to_host_id: int
    gain: float


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """The sets of moves of a balance, made one set after the other, and the score before and after."""

    before: Score
    after: Score
    sets: tuple[tuple[BalanceMove, ...], ...]

    @property
    def moves(self) -> int:
        """The number of moves in all sets."""
        return sum(map(len, self.sets))


def plan_balance(
    hosts: BalanceHosts,
    vms: BalanceVms,
    reach: Flags,
    *,
    most_moves: int,
    least_gain: float,
    most_sets: int = 10_000,
) -> BalancePlan:
    """Return sets of moves that balance the hosts.

    Each move lowers the score of imbalance by at least ``least_gain``.

    No move exceeds the limits of its destination, and a host that already exceeds its limits gets no VM. ``reach``
    has a row per kind of VM and a column per host: whether VMs of that kind may run there. At most ``most_moves``
    moves in ``most_sets`` sets are returned.

    Raises:
        ValueError: ``least_gain`` is not positive, so the planning would not end.
    """
    if least_gain <= 0:
        raise ValueError("least_gain must be positive")
    zone = _Zone(hosts, vms, reach)
    before = zone.score()
    sets: list[tuple[BalanceMove, ...]] = []
    while most_moves > 0 and len(sets) < most_sets and (moves := zone.next_set(most_moves, least_gain)):
        sets.append(tuple(moves))
        most_moves -= len(moves)
    return BalancePlan(before, zone.score() if sets else before, tuple(sets))


def hosts_within_reach(snapshot: ZoneSnapshot, request: PlacementRequest, catalog: PlacementCatalog) -> Flags:
    """Return which hosts the rules about hosts and clusters allow for a VM, regardless of free capacity.

    Raises:
        PlannerNotInstalled: the request names a planner that is not installed.
    """
    reach = np.ones(len(snapshot.hosts.id), dtype=bool)
    for rule in catalog.rules_for(request):
        if rule.excludes_hosts is not None and (marked := rule.excludes_hosts(snapshot, request)) is not None:
            reach &= ~marked
        if rule.excludes_clusters is not None and (marked := rule.excludes_clusters(snapshot, request)) is not None:
            reach &= ~marked[snapshot.hosts.cluster]
    return reach


def score_of(hosts: BalanceHosts, vms: BalanceVms) -> Score:
    """Return the score of the present distribution of VMs."""
    return _Zone(hosts, vms, np.ones((1, len(hosts.id)), dtype=bool)).score()


class _Zone:
    """The state of the hosts while moves are planned."""

    def __init__(self, hosts: BalanceHosts, vms: BalanceVms, reach: Flags) -> None:
        self.hosts = replace(
            hosts,
            cpu_used=hosts.cpu_used.copy(),
            memory_used=hosts.memory_used.copy(),
            vms_used=hosts.vms_used.copy(),
        )
        self.vms = replace(vms, host=vms.host.copy())
        self.reach = reach
        self.cpu_limit, self.memory_limit = (
            np.maximum(limit, 1).astype(np.float64) for limit in (hosts.cpu_limit, hosts.memory_limit)
        )
        self.cpu_mean = float(hosts.cpu_used.sum() / max(self.cpu_limit.sum(), 1))
        self.memory_mean = float(hosts.memory_used.sum() / max(self.memory_limit.sum(), 1))
        self._count_owners()
        self._find_classes()
        clusters = int(hosts.cluster.max()) + 1 if len(hosts.cluster) else 0
        self.largest = np.zeros(clusters, dtype=np.int64)
        np.maximum.at(self.largest, hosts.cluster, hosts.memory_limit)
        self.free = total(hosts.cluster, hosts.memory_limit - hosts.memory_used, clusters)
        self.members: dict[tuple[int, int], int] = {}
        for vm, groups in vms.apart.items():
            for group in groups:
                key = group, int(vms.host[vm])
                self.members[key] = self.members.get(key, 0) + 1

    def _count_owners(self) -> None:
        """Count VMs by owner and host.

        Owners with a single VM are dispersed everywhere equally, so all of them are owner 0.
        """
        _, owner, vms = np.unique(self.vms.owner, return_inverse=True, return_counts=True)
        _, self.owner = np.unique(np.where(vms[owner] > 1, owner + 1, 0), return_inverse=True)
        if not len(owner) or vms[owner].min() > 1:
            self.owner = self.owner + 1
        self.owners = int(self.owner.max(initial=0)) + 1
        self.counts = np.zeros((self.owners, len(self.hosts.id)), dtype=np.int32)
        np.add.at(self.counts, (self.owner, self.vms.host), 1)
        self.counts[0] = 0

    def _find_classes(self) -> None:
        """Group the VMs that have the same owner, size and possible hosts."""
        vms = self.vms
        kinds = np.column_stack((self.owner, vms.reach, vms.cpu, vms.memory))
        alike, self.class_of = np.unique(kinds, axis=0, return_inverse=True)
        self.class_of = self.class_of.ravel()
        self.class_owner, self.class_reach, self.class_cpu, self.class_memory = alike.T

    def score(self) -> Score:
        cpu, memory = self._deviations()
        counts = self.counts[1:].astype(np.int64)
        vms = counts.sum(axis=1)
        each, more = np.divmod(vms, max(len(self.hosts.id), 1))
        best = more * (each + 1) ** 2 + (len(self.hosts.id) - more) * each**2
        # A further VM on a host with n VMs of its owner adds n pairs, half of the growth of the squares.
        pairs = ((counts**2).sum() - best.sum()) / 2
        n1 = sum(self._shortfall(cluster, 0) for cluster in range(len(self.largest)))
        return Score(float((cpu**2).sum()), float((memory**2).sum()), OWNER_WEIGHT * float(pairs), float(n1))

    def next_set(self, most: int, least_gain: float) -> list[BalanceMove]:
        """Apply and return the next set of moves. The moves of a set have no host in common.

        Hosts with the most valuable moves come first.
        """
        movable = np.flatnonzero(self.vms.movable)
        if not len(movable) or len(self.hosts.id) < 2:
            return []
        order, cost = self._destinations(np.unique(self.class_of[movable]))
        leaving = self._leaving(movable)
        hopes = leaving + self._n1_hope(movable) - cost[self.class_of[movable], 0]
        by_hope = np.argsort(-hopes, kind="stable")
        by_hope = by_hope[hopes[by_hope] >= least_gain]
        vms_of: dict[int, list[tuple[float, float, int]]] = {}
        for at in by_hope.tolist():
            vm = int(movable[at])
            vms_of.setdefault(int(self.vms.host[vm]), []).append((float(hopes[at]), float(leaving[at]), vm))
        taken: set[int] = set()
        moves: list[BalanceMove] = []
        for source, candidates in vms_of.items():
            if len(moves) == most:
                break
            if source in taken:
                continue
            found = self._best(source, candidates, order, cost, taken, least_gain)
            if found is not None and (not moves or found[0] >= VALUE * moves[0].gain):
                gain, vm, destination = found
                taken |= {source, destination}
                moves.append(self._make(vm, destination, gain))
        return moves

    def _best(
        self,
        source: int,
        candidates: Sequence[tuple[float, float, int]],
        order: Ints,
        cost: Floats,
        taken: set[int],
        least_gain: float,
    ) -> tuple[float, int, int] | None:
        """Return the most valuable move of a VM from one host: its gain, the VM and the destination.

        Returns None if no move gains at least ``least_gain``.
        """
        best: tuple[float, int, int] | None = None
        for hope, leaving, vm in candidates:
            if hope < (least_gain if best is None else best[0]):
                break
            kind = int(self.class_of[vm])
            most_n1 = hope - leaving + float(cost[kind, 0])
            for destination, price in zip(order[kind].tolist(), cost[kind].tolist(), strict=True):
                most = leaving - price + most_n1
                if most < least_gain or (best is not None and most <= best[0]):
                    break
                if destination == source or destination in taken or not self._is_apart(vm, destination):
                    continue
                gain = leaving - price + self._n1_gain(vm, destination)
                if gain >= least_gain and (best is None or gain > best[0]):
                    best = gain, vm, destination
        return best

    def _make(self, vm: int, destination: int, gain: float) -> BalanceMove:
        vms, hosts, source = self.vms, self.hosts, int(self.vms.host[vm])
        for host, sign in ((source, -1), (destination, 1)):
            hosts.cpu_used[host] += sign * vms.cpu[vm]
            hosts.memory_used[host] += sign * vms.memory[vm]
            hosts.vms_used[host] += sign
            self.free[hosts.cluster[host]] -= sign * vms.memory[vm]
            if self.owner[vm]:
                self.counts[self.owner[vm], host] += sign
            for group in vms.apart.get(vm, ()):
                self.members[group, host] = self.members.get((group, host), 0) + sign
        vms.host[vm] = destination
        return BalanceMove(int(vms.id[vm]), int(hosts.id[source]), int(hosts.id[destination]), gain)

    def _deviations(self) -> tuple[Floats, Floats]:
        return (
            self.hosts.cpu_used / self.cpu_limit - self.cpu_mean,
            self.hosts.memory_used / self.memory_limit - self.memory_mean,
        )

    def _leaving(self, movable: Ints) -> Floats:
        """Return the amount by which the score falls when each of these VMs leaves its host."""
        cpu, memory = self._deviations()
        vms, host = self.vms, self.vms.host[movable]
        less_cpu = vms.cpu[movable] / self.cpu_limit[host]
        less_memory = vms.memory[movable] / self.memory_limit[host]
        owner = self.owner[movable]
        beside = np.where(owner > 0, self.counts[owner, host] - 1, 0)
        gained = less_cpu * (2 * cpu[host] - less_cpu) + less_memory * (2 * memory[host] - less_memory)
        result: Floats = gained + OWNER_WEIGHT * beside
        return result

    def _destinations(self, classes: Ints) -> tuple[Ints, Floats]:
        """Return the best destinations for each of these classes, and the amount by which the score rises there."""
        hosts = len(self.hosts.id)
        kept = min(DESTINATIONS, hosts)
        order = np.zeros((len(self.class_cpu), kept), dtype=np.int64)
        cost = np.full((len(self.class_cpu), kept), np.inf)
        for part in np.array_split(classes, max(1, len(classes) * hosts // ROWS_AT_ONCE)):
            prices = self._prices(part)
            best = np.argpartition(prices, kept - 1, axis=1)[:, :kept] if kept < hosts else None
            best = np.tile(np.arange(hosts), (len(part), 1)) if best is None else np.sort(best, axis=1)
            among = np.take_along_axis(prices, best, axis=1)
            turn = np.argsort(among, axis=1, kind="stable")
            order[part], cost[part] = (
                np.take_along_axis(best, turn, axis=1),
                np.take_along_axis(among, turn, axis=1),
            )
        return order, cost

    def _prices(self, classes: Ints) -> Floats:
        """Return the amount by which the score rises when a VM of each class (row) arrives on each host (column).

        The amount is infinite if the VM may not run there.
        """
        hosts = self.hosts
        cpu, memory = self._deviations()
        more_cpu = self.class_cpu[classes][:, np.newaxis] / self.cpu_limit
        more_memory = self.class_memory[classes][:, np.newaxis] / self.memory_limit
        prices: Floats = more_cpu * (2 * cpu + more_cpu) + more_memory * (2 * memory + more_memory)
        prices += OWNER_WEIGHT * self.counts[self.class_owner[classes]]
        fits = self.class_cpu[classes][:, np.newaxis] <= hosts.cpu_limit - hosts.cpu_used
        fits &= self.class_memory[classes][:, np.newaxis] <= hosts.memory_limit - hosts.memory_used
        fits &= hosts.vms_used < hosts.vms_limit
        fits &= self.reach[self.class_reach[classes]]
        prices[~fits] = np.inf
        return prices

    def _is_apart(self, vm: int, host: int) -> bool:
        return not any(self.members.get((group, host)) for group in self.vms.apart.get(vm, ()))

    def _n1_hope(self, movable: Ints) -> Floats:
        """Return an upper bound of the reduction of the N+1 term of the score if each VM leaves its host."""
        lacking = np.maximum(self.largest - self.free, 0)[self.hosts.cluster[self.vms.host[movable]]]
        largest = np.maximum(self.largest, 1)[self.hosts.cluster[self.vms.host[movable]]]
        result: Floats = np.minimum(lacking, self.vms.memory[movable]) / largest
        return result

    def _n1_gain(self, vm: int, destination: int) -> float:
        """Return the amount by which the N+1 term of the score falls if a VM moves to a destination."""
        left, entered = (int(self.hosts.cluster[host]) for host in (self.vms.host[vm], destination))
        if left == entered:
            return 0.0
        memory = int(self.vms.memory[vm])
        before = self._shortfall(left, 0) + self._shortfall(entered, 0)
        return before - self._shortfall(left, memory) - self._shortfall(entered, -memory)

    def _shortfall(self, cluster: int, freed: int) -> float:
        """Return the share of the largest host's memory that its cluster lacks after ``freed`` MiB were freed."""
        largest = int(self.largest[cluster])
        return max(0, largest - int(self.free[cluster]) - freed) / max(largest, 1)
