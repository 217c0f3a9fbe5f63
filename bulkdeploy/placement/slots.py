"""How many more such VMs a host holds, and how many its cluster's thresholds let in.

A slot is room for one VM of the batch. Slots are never cut to the number of VMs asked for: that keeps
the order among clusters the same however a number of VMs is split over calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.placement.model import (
    ClusterColumns,
    Floats,
    HostColumns,
    Ints,
    PlacementRequest,
    Reason,
    ZoneSnapshot,
)
from bulkdeploy.placement.sieve import Sieve

ENDLESS = 1 << 31
"""Stands for room without bound; sums over a million hosts stay exact in 64 bits and in floats."""


def host_slots(hosts: HostColumns, request: PlacementRequest, sieve: Sieve) -> Ints:
    """Per host the slots by CPU, memory, guest limit and strict affinity; full hosts leave the sieve."""
    resources = (
        (fit(hosts.cpu_limit - hosts.cpu_used, request.cpu_number * request.cpu_mhz), Reason.CPU),
        (fit(hosts.memory_limit - hosts.memory_used, request.memory_mib), Reason.MEMORY),
        (fit(hosts.vms_limit - hosts.vms_used, 1), Reason.GUEST_LIMIT),
        *((limit, Reason.AFFINITY) for limit in _affinity_limits(hosts, request)),
    )
    slots = np.full(len(hosts.id), ENDLESS, dtype=np.int64)
    for limit, reason in resources:
        sieve.drop(limit <= 0, reason)
        np.minimum(slots, limit, out=slots)
    return slots


def fit(free: Ints, size: int) -> Ints:
    """How many things of ``size`` go into each free room: 0 to ``ENDLESS``."""
    if size == 0:
        return np.where(free >= 0, ENDLESS, 0).astype(np.int64)
    return np.clip(free // size, 0, ENDLESS)


def _affinity_limits(hosts: HostColumns, request: PlacementRequest) -> list[Ints]:
    """Per strict affinity group how many VMs of the batch each host may take."""
    limits: list[Ints] = []
    for affinity in request.affinities:
        if affinity.kind is AffinityType.HOST_ANTI_AFFINITY:
            limits.append(1 - vms_on_hosts(hosts.id, affinity.vms_by_host))
        elif affinity.kind is AffinityType.HOST_AFFINITY and has_vms(affinity.vms_by_host):
            limits.append(np.where(vms_on_hosts(hosts.id, affinity.vms_by_host) > 0, ENDLESS, 0).astype(np.int64))
    return limits


def has_vms(vms_by_host: Mapping[int, int]) -> bool:
    """Whether a group has any VM that counts."""
    return any(vms_by_host.values())


def vms_on_hosts(host_ids: Ints, vms_by_host: Mapping[int, int]) -> Ints:
    """A group's VMs on each host; hosts that are not in the columns are left out."""
    counts = np.zeros(len(host_ids), dtype=np.int64)
    if not vms_by_host or len(host_ids) == 0:
        return counts
    order = None if (host_ids[1:] >= host_ids[:-1]).all() else np.argsort(host_ids)
    wanted = np.fromiter(vms_by_host.keys(), np.int64, len(vms_by_host))
    found = np.minimum(np.searchsorted(host_ids, wanted, sorter=order), len(host_ids) - 1)
    position = found if order is None else order[found]
    present = host_ids[position] == wanted
    counts[position[present]] = np.fromiter(vms_by_host.values(), np.int64, len(vms_by_host))[present]
    return counts


def needs_one_host(request: PlacementRequest) -> bool:
    """Whether the batch is in a strict host affinity group without VMs: the first VM's host binds the rest."""
    return any(
        affinity.kind is AffinityType.HOST_AFFINITY and not has_vms(affinity.vms_by_host)
        for affinity in request.affinities
    )


@dataclass(frozen=True, slots=True)
class ClusterUse:
    """Per cluster, limit and use of CPU (MHz) and memory (MiB) over the hosts that are up and enabled.

    Other hosts do not count on either side: what cannot run a VM is no headroom.
    """

    cpu_limit: Ints
    cpu_used: Ints
    memory_limit: Ints
    memory_used: Ints


def cluster_use(snapshot: ZoneSnapshot) -> ClusterUse:
    """Add up the live hosts of each cluster, in the order of the snapshot's clusters."""
    hosts = snapshot.hosts
    live = hosts.up & hosts.enabled
    columns = (hosts.cpu_limit, hosts.cpu_used, hosts.memory_limit, hosts.memory_used)
    return ClusterUse(
        *(total(hosts.cluster, np.where(live, column, 0), len(snapshot.clusters.id)) for column in columns)
    )


def total(member_of: Ints, amounts: Ints, groups: int) -> Ints:
    """The sum of the members' amounts in each group (exact below 2**53)."""
    return np.bincount(member_of, weights=amounts, minlength=groups).astype(np.int64)


def threshold_slots(clusters: ClusterColumns, use: ClusterUse, request: PlacementRequest) -> Ints:
    """Per cluster how many VMs keep (used + requested) / limit at or below both thresholds."""
    result = np.full(len(clusters.id), ENDLESS, dtype=np.int64)
    for threshold, limit, used, need in (
        (clusters.cpu_threshold, use.cpu_limit, use.cpu_used, request.cpu_number * request.cpu_mhz),
        (clusters.memory_threshold, use.memory_limit, use.memory_used, request.memory_mib),
    ):
        bounded = np.isfinite(threshold)
        top = _highest_use(limit, np.where(bounded, threshold, 0.0))
        np.minimum(result, np.where(bounded, fit(top - used, need), ENDLESS), out=result)
    return result


def _highest_use(limit: Ints, threshold: Floats) -> Ints:
    """The greatest whole use with use / limit <= threshold, by that very division."""
    top = np.floor(limit * threshold).astype(np.int64)
    divisor = np.maximum(limit, 1)
    top = np.where((top + 1) / divisor <= threshold, top + 1, top)
    return np.where(top / divisor > threshold, top - 1, top)
