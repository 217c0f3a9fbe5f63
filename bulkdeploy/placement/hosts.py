"""Which hosts inside a cluster take the cluster's VMs (``vm.allocation.algorithm``, reference section 6.2).

``random``: any host with room, all equally likely. ``firstfit``: hosts by id, each filled.
``userdispersing``: the host with the fewest of the owner's VMs. ``firstfitleastconsumed``: the host with
the least share of CPU in use. A cluster lies in one pod, so ``userconcentratedpod_random`` and
``userconcentratedpod_firstfit`` differ from ``random`` and ``firstfit`` only in the order of pods, which
strategies decide. Non-strict affinity comes before the algorithm, which then settles equal preference.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.placement.dispersion import fill_in_order, fill_levels
from bulkdeploy.placement.model import HostColumns, Ints, PlacementRequest
from bulkdeploy.placement.slots import vms_on_hosts

SHARES = 1_000_000
"""CPU use is compared in millionths of a host."""

RANDOM_ROUNDS = 16
"""Rounds of drawing after which the last VMs of nearly full clusters are given out in shuffled order."""

PREFERENCE = {AffinityType.NON_STRICT_HOST_AFFINITY: 1, AffinityType.NON_STRICT_HOST_ANTI_AFFINITY: -1}


@dataclass(frozen=True, slots=True)
class Rack:
    """The hosts to choose from, sorted by cluster and id: positions in the columns, cluster number, slots.

    Clusters are numbered 0, 1, ... without gaps.
    """

    at: Ints
    cluster: Ints
    slots: Ints


def share_hosts(hosts: HostColumns, request: PlacementRequest, rack: Rack, wanted: Ints) -> Ints:
    """How many VMs each host of the rack gets; ``wanted`` per cluster, at most the cluster's slots.

    Raises:
        ValueError: the host algorithm is not one of those above.
    """
    rng = np.random.default_rng(request.seed)
    preferences = [affinity for affinity in request.affinities if affinity.kind in PREFERENCE]
    if not preferences:
        return _by_algorithm(hosts, request, rack, wanted, rng)
    liking = np.zeros(len(rack.at), dtype=np.int64)
    for affinity in preferences:
        liking += PREFERENCE[affinity.kind] * vms_on_hosts(hosts.id, affinity.vms_by_host)[rack.at]
    growth = sum(PREFERENCE[affinity.kind] for affinity in preferences)
    order = np.lexsort((_algorithm_keys(hosts, request, rack, rng), rack.cluster))
    return _by_liking(rack, wanted, liking, growth, order)


def _by_liking(rack: Rack, wanted: Ints, liking: Ints, growth: int, order: Ints) -> Ints:
    """The most liked host with room takes each VM, which changes how it is liked by ``growth``."""
    added = np.zeros_like(rack.slots)
    if growth < 0:
        cluster, slots = rack.cluster[order], rack.slots[order]
        added[order] = fill_levels(-liking[order], -growth, slots, cluster, wanted)
    else:
        order = order[np.lexsort((-liking[order], rack.cluster[order]))]
        added[order] = fill_in_order(rack.slots[order], rack.cluster[order], wanted)
    return added


def _by_algorithm(hosts: HostColumns, request: PlacementRequest, rack: Rack, wanted: Ints, rng: Generator) -> Ints:
    match request.host_algorithm:
        case "random" | "userconcentratedpod_random":
            return _random(rack, wanted, rng)
        case "firstfit" | "userconcentratedpod_firstfit":
            return fill_in_order(rack.slots, rack.cluster, wanted)
        case "userdispersing":
            return fill_levels(hosts.owner_vms[rack.at], 1, rack.slots, rack.cluster, wanted)
        case "firstfitleastconsumed":
            need = request.cpu_number * request.cpu_mhz
            step = np.maximum(need * SHARES // np.maximum(hosts.cpu_limit[rack.at], 1), 1)
            return fill_levels(_cpu_shares(hosts, rack), step, rack.slots, rack.cluster, wanted)
    raise ValueError(f"host algorithm {request.host_algorithm!r} is not known")


def _algorithm_keys(hosts: HostColumns, request: PlacementRequest, rack: Rack, rng: Generator) -> Ints:
    """The order the algorithm gives hosts before any VM is placed, as sort keys."""
    match request.host_algorithm:
        case "random" | "userconcentratedpod_random":
            return rng.permutation(len(rack.at))
        case "firstfit" | "userconcentratedpod_firstfit":
            return np.arange(len(rack.at), dtype=np.int64)
        case "userdispersing":
            return hosts.owner_vms[rack.at]
        case "firstfitleastconsumed":
            return _cpu_shares(hosts, rack)
    raise ValueError(f"host algorithm {request.host_algorithm!r} is not known")


def _cpu_shares(hosts: HostColumns, rack: Rack) -> Ints:
    return hosts.cpu_used[rack.at] * SHARES // np.maximum(hosts.cpu_limit[rack.at], 1)


def _random(rack: Rack, wanted: Ints, rng: Generator) -> Ints:
    """Draw a host with room for every VM; what overfills a host is drawn again."""
    added = np.zeros_like(rack.slots)
    missing = wanted
    for _ in range(RANDOM_ROUNDS):
        roomy = np.flatnonzero(added < rack.slots)
        hosts_of = np.bincount(rack.cluster[roomy], minlength=len(wanted))
        first = np.cumsum(hosts_of) - hosts_of
        cluster = np.repeat(np.arange(len(wanted), dtype=np.int64), missing)
        drawn = first[cluster] + (rng.random(len(cluster)) * hosts_of[cluster]).astype(np.int64)
        added += np.bincount(roomy[drawn], minlength=len(added))
        excess = np.maximum(added - rack.slots, 0)
        added -= excess
        missing = np.bincount(rack.cluster, weights=excess, minlength=len(wanted)).astype(np.int64)
        if not missing.any():
            return added
    shuffled = np.lexsort((rng.random(len(added)), rack.cluster))
    room = rack.slots - added
    added[shuffled] += fill_in_order(room[shuffled], rack.cluster[shuffled], missing)
    return added
