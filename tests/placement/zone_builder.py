"""A zone in plain Python objects, and the snapshot that the planner reads of it.

Tests describe zones with these; ``Zone.snapshot`` makes the columns, listed in the order given, and
``Zone.after`` accounting a plan, so that a second plan sees the first.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf

import numpy as np

from bulkdeploy.placement import planner
from bulkdeploy.placement.model import (
    Affinity,
    ClusterColumns,
    HostColumns,
    PlacementRequest,
    Plan,
    PoolColumns,
    ZoneSnapshot,
)
from bulkdeploy.scheduling.catalog import placement_catalog

GIB = 1 << 30


@dataclass
class Cluster:
    """A cluster; counts of VMs are those that the snapshot reports, whatever its hosts say."""

    id: int
    pod_id: int = 1
    hypervisor: str = "KVM"
    enabled: bool = True
    pod_enabled: bool = True
    policy: int = 0
    cpu_threshold: float = inf
    memory_threshold: float = inf
    owner_vms: int = 0
    all_vms: int = 0


@dataclass
class Host:
    """A host of a cluster (by id); MHz and MiB."""

    id: int
    cluster_id: int
    up: bool = True
    enabled: bool = True
    cores: int = 16
    mhz: int = 2000
    cpu_limit: int = 32000
    cpu_used: int = 0
    memory_limit: int = 65536
    memory_used: int = 0
    vms_limit: int = 50
    vms_used: int = 0
    owner_vms: int = 0
    tags: frozenset[str] = frozenset()
    foreign: bool = False
    own: bool = False


@dataclass
class Pool:
    """A pool of a cluster, of a host, or (neither given) of the zone."""

    id: int
    limit: int
    cluster_id: int | None = None
    host_id: int | None = None
    allocated: int = 0
    up: bool = True
    tags: frozenset[str] = frozenset()
    hypervisor: str = ""


@dataclass
class Zone:
    """Clusters, hosts and pools, in the order in which the snapshot lists them."""

    clusters: list[Cluster]
    hosts: list[Host]
    pools: list[Pool] = field(default_factory=list)

    def cluster(self, cluster_id: int) -> Cluster:
        """The cluster with this id."""
        return next(cluster for cluster in self.clusters if cluster.id == cluster_id)

    def host(self, host_id: int) -> Host:
        """The host with this id."""
        return next(host for host in self.hosts if host.id == host_id)

    def pool(self, pool_id: int) -> Pool:
        """The pool with this id."""
        return next(pool for pool in self.pools if pool.id == pool_id)

    def hosts_of(self, cluster: Cluster) -> list[Host]:
        """The cluster's hosts."""
        return [host for host in self.hosts if host.cluster_id == cluster.id]

    def snapshot(self) -> ZoneSnapshot:
        """The zone as columns."""
        tag_sets: list[frozenset[str]] = []
        for tags in (*(host.tags for host in self.hosts), *(pool.tags for pool in self.pools)):
            if tags not in tag_sets:
                tag_sets.append(tags)
        return ZoneSnapshot(
            clusters=self._cluster_columns(),
            hosts=self._host_columns(tag_sets),
            pools=self._pool_columns(tag_sets),
            tag_sets=tuple(tag_sets),
        )

    def _cluster_columns(self) -> ClusterColumns:
        return ClusterColumns(
            hypervisor=tuple(cluster.hypervisor for cluster in self.clusters),
            **_columns(self.clusters, np.int64, "id", "pod_id", "policy", "owner_vms", "all_vms"),
            **_columns(self.clusters, np.bool_, "enabled", "pod_enabled"),
            **_columns(self.clusters, np.float64, "cpu_threshold", "memory_threshold"),
        )

    def _host_columns(self, tag_sets: list[frozenset[str]]) -> HostColumns:
        positions = {cluster.id: position for position, cluster in enumerate(self.clusters)}
        numbers = ("id", "cores", "mhz", "cpu_limit", "cpu_used", "memory_limit", "memory_used")
        return HostColumns(
            cluster=np.array([positions[host.cluster_id] for host in self.hosts], dtype=np.int64),
            tag_set=np.array([tag_sets.index(host.tags) for host in self.hosts], dtype=np.int64),
            **_columns(self.hosts, np.int64, *numbers, "vms_limit", "vms_used", "owner_vms"),
            **_columns(self.hosts, np.bool_, "up", "enabled", "foreign", "own"),
        )

    def _pool_columns(self, tag_sets: list[frozenset[str]]) -> PoolColumns:
        clusters: dict[int | None, int] = {cluster.id: position for position, cluster in enumerate(self.clusters)}
        hosts: dict[int | None, int] = {host.id: position for position, host in enumerate(self.hosts)}
        return PoolColumns(
            cluster=np.array([clusters.get(pool.cluster_id, -1) for pool in self.pools], dtype=np.int64),
            host=np.array([hosts.get(pool.host_id, -1) for pool in self.pools], dtype=np.int64),
            tag_set=np.array([tag_sets.index(pool.tags) for pool in self.pools], dtype=np.int64),
            hypervisor=tuple(pool.hypervisor for pool in self.pools),
            **_columns(self.pools, np.int64, "id", "limit", "allocated"),
            **_columns(self.pools, np.bool_, "up"),
        )

    def after(self, request: PlacementRequest, plan: Plan) -> "Zone":
        """The zone once the plan is claimed."""
        zone = deepcopy(self)
        for number in range(plan.placed):
            host = zone.host(int(plan.host_ids[number]))
            host.cpu_used += request.cpu_number * request.cpu_mhz
            host.memory_used += request.memory_mib
            host.vms_used += 1
            host.owner_vms += 1
            cluster = zone.cluster(host.cluster_id)
            cluster.owner_vms += 1
            cluster.all_vms += 1
            for disk, pool_id in zip(request.disks, plan.pool_ids[number].tolist(), strict=True):
                zone.pool(pool_id).allocated += disk.size_bytes
        return zone


def _columns(things: Sequence[object], dtype: type, *names: str) -> dict[str, np.ndarray]:
    return {name: np.array([getattr(thing, name) for thing in things], dtype=dtype) for name in names}


def affinities_after(request: PlacementRequest, plan: Plan) -> tuple[Affinity, ...]:
    """The batch's affinity groups once its VMs are in them."""
    result = []
    for affinity in request.affinities:
        vms = dict(affinity.vms_by_host)
        for host_id in plan.host_ids.tolist():
            vms[host_id] = vms.get(host_id, 0) + 1
        result.append(Affinity(affinity.kind, vms))
    return tuple(result)


def plan(snapshot: ZoneSnapshot, requested: PlacementRequest) -> Plan:
    """The plan by the rules and strategies there are."""
    return planner.plan(snapshot, requested, placement_catalog())


def even_zone(clusters: int, hosts: int, *, pods: int = 1, slots: int = 4) -> Zone:
    """A zone of like clusters (ids 1, 2, ...) with like hosts (ids 11, 12, ... in cluster 1), all empty.

    A host has room for ``slots`` VMs of the default ``request``. Clusters go to the pods in turn.
    """
    return Zone(
        [Cluster(number, pod_id=(number - 1) % pods + 1) for number in range(1, clusters + 1)],
        [
            Host(cluster * 10 + number, cluster, cpu_limit=slots * 1000, memory_limit=slots * 1024)
            for cluster in range(1, clusters + 1)
            for number in range(1, hosts + 1)
        ],
    )


def request(count: int, **changes: object) -> PlacementRequest:
    """A request for small VMs: one core of 1000 MHz and 1 GiB of memory."""
    values: dict[str, object] = {"cpu_number": 1, "cpu_mhz": 1000, "memory_mib": 1024, "hypervisor": "KVM"}
    return PlacementRequest(count=count, **{**values, **changes})  # type: ignore[arg-type]


def per_cluster(plan: Plan) -> dict[int, int]:
    """How many VMs each cluster (by id) got; clusters without are absent."""
    ids, counts = np.unique(plan.cluster_ids, return_counts=True)
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))


def per_host(plan: Plan) -> dict[int, int]:
    """How many VMs each host (by id) got; hosts without are absent."""
    ids, counts = np.unique(plan.host_ids, return_counts=True)
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))
