"""The choice of hosts inside a cluster (``vm.allocation.algorithm``, cloudstack-protocol.md 6.2).

``random``: any host with free capacity, with equal probability. ``firstfit``: hosts by id, each filled before the
next. ``userdispersing``: the host with the fewest VMs of the owner. ``firstfitleastconsumed``: the host with the
lowest share of CPU in use. ``leastused`` (not in CloudStack): the host with the lowest sum of the shares of CPU and
of memory in use. A cluster is in one pod, so ``userconcentratedpod_random`` and ``userconcentratedpod_firstfit``
differ from ``random`` and ``firstfit`` only in the order of pods, which strategies determine. Non-strict affinity
comes before the algorithm, which then decides between equally preferred hosts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.placement.affinity_members import vms_on_hosts
from bulkdeploy.placement.dispersion import fill_in_order, fill_levels
from bulkdeploy.placement.model import HostColumns, Ints, PlacementRequest

SHARES = 1_000_000
"""CPU use is compared in millionths of a host."""

RANDOM_ROUNDS = 16
"""Rounds of drawing after which the last VMs of nearly full clusters are given out in shuffled order."""

PREFERENCE = {AffinityType.NON_STRICT_HOST_AFFINITY: 1, AffinityType.NON_STRICT_HOST_ANTI_AFFINITY: -1}


@dataclass(frozen=True, slots=True)
class CandidateHosts:
    """The hosts from which to choose, sorted by cluster and id: positions in the columns, cluster, capacity in VMs.

    Clusters are numbered 0, 1, ... without gaps.
    """

    at: Ints
    cluster: Ints
    capacity: Ints


@dataclass(frozen=True, slots=True)
class _Task:
    """The input of a host algorithm.

    ``wanted`` is the number of VMs per cluster, at most the number that the candidates of the cluster can take.
    """

    hosts: HostColumns
    request: PlacementRequest
    candidates: CandidateHosts
    wanted: Ints

    @property
    def rng(self) -> "np.random.Generator":
        """A random generator with the seed of the request. Only algorithms that use it import numpy's module."""
        return np.random.Generator(np.random.PCG64(self.request.seed))  # like default_rng, but faster to create

    def cpu_shares(self) -> Ints:
        """Return the share of CPU in use of each candidate, as a whole number of parts of SHARES."""
        at = self.candidates.at
        return self.hosts.cpu_used[at] * SHARES // np.maximum(self.hosts.cpu_limit[at], 1)

    def memory_shares(self) -> Ints:
        """Return the share of memory in use of each candidate, as a whole number of parts of SHARES."""
        at = self.candidates.at
        return self.hosts.memory_used[at] * SHARES // np.maximum(self.hosts.memory_limit[at], 1)

    def levelled(self, start: Ints, step: Ints | int) -> Ints:
        """Return the number of VMs per candidate if each VM goes to the candidate with the lowest level.

        Each VM raises the level of its candidate by ``step``.
        """
        return fill_levels(start, step, self.candidates.capacity, self.candidates.cluster, self.wanted)


_Choice: TypeAlias = Callable[[_Task], Ints]


@dataclass(frozen=True, slots=True)
class HostAlgorithm:
    """An algorithm that distributes VMs over the hosts of a cluster (a value of ``vm.allocation.algorithm``).

    Attributes:
        share: returns the number of VMs for each candidate.
        order: returns keys that sort the candidates before any VM is placed. They decide between candidates that an
            affinity group prefers equally.
        needs_owner_vms: whether the algorithm reads the number of the owner's VMs on each host.
    """

    share: _Choice
    order: _Choice
    needs_owner_vms: bool = False


def share_hosts(hosts: HostColumns, request: PlacementRequest, candidates: CandidateHosts, wanted: Ints) -> Ints:
    """Return the number of VMs per candidate host.

    ``wanted`` is the number of VMs per cluster, at most the number that the candidates of the cluster can take.

    Raises:
        KeyError: the host algorithm is not one of HOST_ALGORITHMS.
    """
    task = _Task(hosts, request, candidates, wanted)
    algorithm = HOST_ALGORITHMS[request.host_algorithm]
    preferences = [affinity for affinity in request.affinities if affinity.kind in PREFERENCE]
    if not preferences:
        return algorithm.share(task)
    preference = np.zeros(len(candidates.at), dtype=np.int64)
    for affinity in preferences:
        preference += PREFERENCE[affinity.kind] * vms_on_hosts(hosts.id, affinity.vms_by_host)[candidates.at]
    growth = sum(PREFERENCE[affinity.kind] for affinity in preferences)
    order = np.lexsort((algorithm.order(task), candidates.cluster))
    return _by_preference(candidates, wanted, preference, growth, order)


def _by_preference(candidates: CandidateHosts, wanted: Ints, preference: Ints, growth: int, order: Ints) -> Ints:
    """Return the number of VMs per candidate if each VM goes to the most preferred candidate with capacity.

    Each VM changes the preference of its candidate by ``growth``.
    """
    added = np.zeros(len(candidates.capacity), dtype=np.int64)
    if growth < 0:
        cluster, capacity = candidates.cluster[order], candidates.capacity[order]
        added[order] = fill_levels(-preference[order], -growth, capacity, cluster, wanted)
    else:
        order = order[np.lexsort((-preference[order], candidates.cluster[order]))]
        added[order] = fill_in_order(candidates.capacity[order], candidates.cluster[order], wanted)
    return added


def _first_fit(task: _Task) -> Ints:
    return fill_in_order(task.candidates.capacity, task.candidates.cluster, task.wanted)


def _least_consumed(task: _Task) -> Ints:
    need = task.request.cpu_number * task.request.cpu_mhz
    step = np.maximum(need * SHARES // np.maximum(task.hosts.cpu_limit[task.candidates.at], 1), 1)
    return task.levelled(task.cpu_shares(), step)


def _least_used(task: _Task) -> Ints:
    at = task.candidates.at
    cpu, memory = task.request.cpu_number * task.request.cpu_mhz, task.request.memory_mib
    step = cpu * SHARES // np.maximum(task.hosts.cpu_limit[at], 1)
    step += memory * SHARES // np.maximum(task.hosts.memory_limit[at], 1)
    return task.levelled(task.cpu_shares() + task.memory_shares(), np.maximum(step, 1))


def _random(task: _Task) -> Ints:
    """Draw a random host with capacity for each VM. VMs that exceed a host's capacity are drawn again."""
    candidates, wanted, rng = task.candidates, task.wanted, task.rng
    added = np.zeros(len(candidates.capacity), dtype=np.int64)
    if len(wanted) == 1 and wanted[0] == 1:  # a list of unlike VMs is many of these
        roomy = candidates.capacity.nonzero()[0]
        added[roomy[int(rng.random() * len(roomy))]] = 1
        return added
    missing = wanted
    for _ in range(RANDOM_ROUNDS):
        roomy = (added < candidates.capacity).nonzero()[0]
        hosts_of = np.bincount(candidates.cluster[roomy], minlength=len(wanted))
        first = hosts_of.cumsum() - hosts_of
        cluster = np.arange(len(wanted), dtype=np.int64).repeat(missing)
        drawn = first[cluster] + (rng.random(len(cluster)) * hosts_of[cluster]).astype(np.int64)
        added += np.bincount(roomy[drawn], minlength=len(added))
        excess = np.maximum(added - candidates.capacity, 0)
        if not excess.any():
            return added
        added -= excess
        missing = np.bincount(candidates.cluster, weights=excess, minlength=len(wanted)).astype(np.int64)
    shuffled = np.lexsort((rng.random(len(added)), candidates.cluster))
    capacity = candidates.capacity - added
    added[shuffled] += fill_in_order(capacity[shuffled], candidates.cluster[shuffled], missing)
    return added


_RANDOM = HostAlgorithm(_random, lambda task: task.rng.permutation(len(task.candidates.at)))
_FIRST_FIT = HostAlgorithm(_first_fit, lambda task: np.arange(len(task.candidates.at), dtype=np.int64))

HOST_ALGORITHMS: Mapping[str, HostAlgorithm] = {
    "random": _RANDOM,
    "firstfit": _FIRST_FIT,
    "userdispersing": HostAlgorithm(
        lambda task: task.levelled(task.hosts.owner_vms[task.candidates.at], 1),
        lambda task: task.hosts.owner_vms[task.candidates.at],
        needs_owner_vms=True,
    ),
    "userconcentratedpod_random": _RANDOM,
    "userconcentratedpod_firstfit": _FIRST_FIT,
    "firstfitleastconsumed": HostAlgorithm(_least_consumed, _Task.cpu_shares),
    "leastused": HostAlgorithm(_least_used, lambda task: task.cpu_shares() + task.memory_shares()),
}
"""All of them by name."""
