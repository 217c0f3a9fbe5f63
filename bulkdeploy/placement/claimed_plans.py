"""The state of a zone, and of a request's affinity groups, after a plan is claimed."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bulkdeploy.placement.model import Affinity, Ints, NewVms, PlacementRequest, Plan, ZoneSnapshot


def after(snapshot: ZoneSnapshot, request: PlacementRequest, made: Plan) -> ZoneSnapshot:
    """Return the zone as it is after a plan is claimed."""
    if not made.placed:
        return snapshot
    on_host = _counted(snapshot, "hosts by id", snapshot.hosts.id, made.host_ids)
    allocated = np.zeros(len(snapshot.pools.id), dtype=np.int64)
    for position, disk in enumerate(request.disks):
        chosen = made.pool_ids[:, position]
        allocated += disk.size_bytes * _counted(snapshot, "pools by id", snapshot.pools.id, chosen[chosen >= 0])
    return snapshot.with_vms(
        NewVms(
            on_host,
            _counted(snapshot, "clusters by id", snapshot.clusters.id, made.cluster_ids),
            allocated,
            request.cpu_number * request.cpu_mhz,
            request.memory_mib,
        )
    )


def with_members_of(request: PlacementRequest, made: Plan) -> PlacementRequest:
    """Return the request with the members that its affinity groups have after the plan is claimed."""
    members: dict[int, Mapping[int, int]] = {}
    add_members(request, made, members)
    return with_members(request, members)


def with_members(request: PlacementRequest, members: Mapping[int, Mapping[int, int]]) -> PlacementRequest:
    """Return the request with the members that its affinity groups have after earlier requests of the batch."""
    if not any(affinity.group_id in members for affinity in request.affinities):
        return request
    affinities = tuple(
        Affinity(affinity.kind, members.get(affinity.group_id, affinity.vms_by_host), affinity.group_id)
        for affinity in request.affinities
    )
    return replace(request, affinities=affinities)


def add_members(request: PlacementRequest, made: Plan, members: dict[int, Mapping[int, int]]) -> None:
    """Add the VMs of a plan to ``members``, which counts the VMs of each affinity group by host."""
    if not request.affinities:
        return
    hosts, vms = np.unique(made.host_ids, return_counts=True)
    added = list(zip(hosts.tolist(), vms.tolist(), strict=True))
    for affinity in request.affinities:
        now = dict(affinity.vms_by_host)
        for host_id, count in added:
            now[host_id] = now.get(host_id, 0) + count
        members[affinity.group_id] = now


def without(snapshot: ZoneSnapshot, request: PlacementRequest, host_id: int) -> ZoneSnapshot:
    """Return the zone after a VM like the requested one has left a host.

    The VM still counts as one of its owner's VMs on that host.
    """
    hosts = snapshot.hosts
    gone = (hosts.id == host_id).astype(np.int64)
    return replace(
        snapshot,
        hosts=replace(
            hosts,
            cpu_used=hosts.cpu_used - gone * (request.cpu_number * request.cpu_mhz),
            memory_used=hosts.memory_used - gone * request.memory_mib,
            vms_used=hosts.vms_used - gone,
        ),
    )


def _counted(snapshot: ZoneSnapshot, name: str, ids: Ints, wanted: Ints) -> Ints:
    """Return the number of occurrences of each id in ``wanted``. All entries of ``wanted`` must be in ``ids``."""
    order = snapshot.once(name, lambda: ids.argsort(kind="stable"))
    at = order[ids.searchsorted(wanted, sorter=order)]
    return np.bincount(at, minlength=len(ids))
