"""The input and the output of placement: a zone as columns, a request, a plan (one file: one model).

All arrays are numpy arrays. Hosts refer to clusters, and pools to clusters and hosts, by POSITION in the columns
(-1: none). Units: MHz, MiB, bytes. This module has no I/O. ``store.ledger.snapshot`` creates a ``ZoneSnapshot``,
and ``scheduling`` writes a ``Plan`` into the ledger.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bulkdeploy.domain.infrastructure.topology import AffinityType, StorageType

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterColumns:
    """The clusters of a zone that are not removed, one entry per cluster, ordered by id.

    ``enabled`` and ``pod_enabled`` are allocation states; the zone's state is checked before. ``policy`` is the
    higher rank of the cluster's and its pod's ``AllocationPolicy``. ``cpu_threshold`` and ``memory_threshold`` are
    the shares of the limit that a new VM must not exceed; infinite if thresholds are off. ``owner_vms`` is the
    number of the owner's VMs that have or will have a host in the cluster, ``all_vms`` that of all owners.
    """

    id: Ints
    pod_id: Ints
    hypervisor: tuple[str, ...]
    enabled: Flags
    pod_enabled: Flags
    policy: Ints
    cpu_threshold: Floats
    memory_threshold: Floats
    owner_vms: Ints
    all_vms: Ints


@dataclass(frozen=True, slots=True)
class HostColumns:
    """The hosts that are not removed, one entry per host, ordered by id.

    Limits include over-commit. ``tag_set`` indexes ``ZoneSnapshot.tag_sets``. ``foreign`` marks hosts that are
    dedicated (by host, cluster, pod or zone) to another owner, and ``own`` marks hosts that are dedicated to the
    owner. ``owner_vms`` is the number of the owner's VMs on the host.
    """

    id: Ints
    cluster: Ints
    up: Flags
    enabled: Flags
    cores: Ints
    mhz: Ints
    cpu_limit: Ints
    cpu_used: Ints
    memory_limit: Ints
    memory_used: Ints
    vms_limit: Ints
    vms_used: Ints
    owner_vms: Ints
    tag_set: Ints
    foreign: Flags
    own: Flags


@dataclass(frozen=True, slots=True)
class PoolColumns:
    """The primary storage pools that are not removed, one entry per pool, ordered by id.

    ``cluster`` is -1 for a pool of ZONE scope, and ``host`` is -1 for a pool of ZONE or CLUSTER scope. ``limit`` is
    the number of bytes that may be allocated: size x over-provisioning x threshold. ``hypervisor`` restricts a
    zone-wide pool to one hypervisor; an empty text means any.
    """

    id: Ints
    cluster: Ints
    host: Ints
    up: Flags
    limit: Ints
    allocated: Ints
    tag_set: Ints
    hypervisor: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterUse:
    """The limit and the use of CPU (MHz) and memory (MiB) of each cluster.

    Only hosts that are up and enabled count on both sides, because other hosts cannot run a VM.
    """

    cpu_limit: Ints
    cpu_used: Ints
    memory_limit: Ints
    memory_used: Ints


@dataclass(frozen=True, slots=True)
class NewVms:
    """The effect of equal new VMs: the number per host and cluster, the bytes per pool, and the size of one VM."""

    on_host: Ints
    in_cluster: Ints
    bytes_in_pool: Ints
    cpu_mhz: int
    memory_mib: int


@dataclass(frozen=True)
class ZoneSnapshot:
    """A zone at one moment, as seen by the request of one owner.

    ``lasting`` has derived values that placing VMs does not change. Snapshots that follow from placing VMs share
    them.
    """

    clusters: ClusterColumns
    hosts: HostColumns
    pools: PoolColumns
    tag_sets: tuple[frozenset[str], ...]
    lasting: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, name: Hashable, work_out: Callable[[], T]) -> T:
        """Return the result of ``work_out``, which is computed at the first call and then cached under ``name``.

        The result must not depend on the VMs in the zone.
        """
        if name not in self.lasting:
            self.lasting[name] = work_out()
        found: T = self.lasting[name]
        return found

    def with_vms(self, vms: "NewVms") -> "ZoneSnapshot":
        """Return the zone with additional VMs of the snapshot's owner. Their hosts must be up and enabled."""
        clusters, hosts, pools = self.clusters, self.hosts, self.pools
        use, on_host, in_cluster = self.cluster_use, vms.on_host, vms.in_cluster
        filled = ZoneSnapshot(
            replace(clusters, owner_vms=clusters.owner_vms + in_cluster, all_vms=clusters.all_vms + in_cluster),
            replace(
                hosts,
                cpu_used=hosts.cpu_used + on_host * vms.cpu_mhz,
                memory_used=hosts.memory_used + on_host * vms.memory_mib,
                vms_used=hosts.vms_used + on_host,
                owner_vms=hosts.owner_vms + on_host,
            ),
            replace(pools, allocated=pools.allocated + vms.bytes_in_pool),
            self.tag_sets,
        )
        filled.lasting.update(self.lasting)
        filled.__dict__["cluster_use"] = ClusterUse(
            use.cpu_limit,
            use.cpu_used + in_cluster * vms.cpu_mhz,
            use.memory_limit,
            use.memory_used + in_cluster * vms.memory_mib,
        )
        return filled

    @property
    def seed(self) -> int:
        """A number that depends only on the use of the hosts: the same zone in the same state has the same seed."""
        return crc32(self.hosts.memory_used.tobytes(), crc32(self.hosts.vms_used.tobytes()))

    @property
    def clusters_in_order(self) -> tuple[Ints, Ints]:
        """Positions of clusters in order of id, and for each position its number in that order."""
        return self.once("clusters in order", lambda: _numbered(self.clusters.id))

    @property
    def hosts_in_order(self) -> tuple[Ints, Ints]:
        """Positions of hosts by the number of their cluster and by id, and these numbers."""
        return self.once("hosts in order", self._order_hosts)

    def _order_hosts(self) -> tuple[Ints, Ints]:
        _, number = self.clusters_in_order
        cluster = number[self.hosts.cluster]
        at = np.argsort(self.hosts.id, kind="stable")
        key = (cluster[at] << 32) | np.arange(len(at), dtype=np.int64)
        key.sort()
        at = at[key & 0xFFFFFFFF]
        return at, cluster[at]

    @cached_property
    def cluster_use(self) -> ClusterUse:
        """The summed limit and use of each cluster's hosts that are up and enabled, in the order of clusters."""
        hosts = self.hosts
        live = hosts.up & hosts.enabled
        columns = (hosts.cpu_limit, hosts.cpu_used, hosts.memory_limit, hosts.memory_used)
        return ClusterUse(
            *(total(hosts.cluster, np.where(live, column, 0), len(self.clusters.id)) for column in columns)
        )


def _numbered(ids: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(ids, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(ids), dtype=np.int64)
    return order, number


def total(member_of: Ints, amounts: Ints, groups: int) -> Ints:
    """Return the sum of the members' amounts in each group (exact below 2**53)."""
    return np.bincount(member_of, weights=amounts, minlength=groups).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Disk:
    """A volume that each VM needs: its size, its storage type and the tags that its pool must have."""

    size_bytes: int
    storage_type: StorageType
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Affinity:
    """An affinity group to which the batch belongs, and the number of its VMs on each host (by id)."""

    kind: AffinityType
    vms_by_host: Mapping[int, int]
    group_id: int = 0


COUNT_DISPERSING = "UserDispersingPlanner"
"""The planner of a request that names none."""


class Purpose(Enum):
    """The purpose of a placement; a rule declares for which purposes it applies."""

    START = "a VM that starts, new or stopped"
    MOVE = "a running VM that moves"
    GROW = "a running VM that grows where it is"


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A request to place ``count`` alike VMs.

    ``cpu_mhz`` is the speed of one core: a VM claims ``cpu_number * cpu_mhz`` MHz. All pins apply together. If
    ``dedicated`` is set, the VMs are in an ExplicitDedication group and may use only hosts that are dedicated to
    the owner. ``planner`` names the strategy. Rules of ``offering_planner`` apply, too, if it is given. ``seed``
    makes the random host algorithm repeatable. ``most_by_host`` is the maximum number of VMs per host (by id) if an
    allocator program chose the hosts; other hosts get none. None means no maximum.
    """

    count: int
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    hypervisor: str
    purpose: Purpose = Purpose.START
    disks: tuple[Disk, ...] = ()
    host_tags: frozenset[str] = frozenset()
    pod_id: int | None = None
    cluster_id: int | None = None
    host_id: int | None = None
    avoid_host_ids: frozenset[int] = frozenset()
    affinities: tuple[Affinity, ...] = ()
    dedicated: bool = False
    planner: str = COUNT_DISPERSING
    offering_planner: str | None = None
    pods_first: bool = False
    host_algorithm: str = "random"
    seed: int = 0
    most_by_host: Mapping[int, int] | None = None


class ClusterSpread(NamedTuple):
    """The effect of a plan on one cluster: the owner's VMs before, the capacity, and the number of added VMs."""

    cluster_id: int
    pod_id: int
    before: int
    capacity: int
    added: int


@dataclass(frozen=True, slots=True)
class Spread:
    """The effect of a plan on all eligible clusters, a column per fact; iteration yields ``ClusterSpread``."""

    cluster_id: Ints
    pod_id: Ints
    before: Ints
    capacity: Ints
    added: Ints

    def __iter__(self) -> Iterator[ClusterSpread]:
        facts = (self.cluster_id, self.pod_id, self.before, self.capacity, self.added)
        return map(ClusterSpread, *(fact.tolist() for fact in facts))

    def between(self, start: int, end: int) -> "Spread":
        """Return the effect on the clusters from position ``start`` to before ``end``."""
        at = slice(start, end)
        return Spread(self.cluster_id[at], self.pod_id[at], self.before[at], self.capacity[at], self.added[at])


class HostAnswer(NamedTuple):
    """The number of a request's VMs that a host takes, and the reason of the rule that excludes the host."""

    host_id: int
    capacity: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The places of VMs in the order of their jobs. Clusters alternate, so that their load grows evenly.

    ``host_ids``, ``cluster_ids`` and ``pod_ids`` have one entry per placed VM. ``pool_ids`` has a row per placed VM
    and a column per disk. ``capacity`` is the number of such VMs that all candidate hosts can take. ``excluded``
    counts hosts by the reason of the first rule that excluded them; ``count_excluded`` computes it on demand.
    ``limiting`` equals ``excluded`` if no VM or every VM was placed. If only some VMs were placed, it counts the
    hosts of the zone after these are claimed, and so states why no more VMs fit. Placed and refused VMs always add
    up to the requested ones.
    """

    requested: int
    host_ids: Ints
    cluster_ids: Ints
    pod_ids: Ints
    pool_ids: Ints
    capacity: int
    count_excluded: Callable[[], Mapping[str, int]]
    spread: Spread
    count_limiting: Callable[[], Mapping[str, int]] | None = None

    @property
    def limiting(self) -> Mapping[str, int]:
        """The number of hosts per reason why they take no more VMs."""
        return self.excluded if self.count_limiting is None else self.count_limiting()

    @property
    def excluded(self) -> Mapping[str, int]:
        """The number of excluded hosts per reason."""
        return self.count_excluded()

    def of(self, vms: Ints) -> "Plan":
        """Return the plan for some of its VMs, given by their numbers."""
        return replace(
            self,
            host_ids=self.host_ids[vms],
            cluster_ids=self.cluster_ids[vms],
            pod_ids=self.pod_ids[vms],
            pool_ids=self.pool_ids[vms],
        )

    def split(self, counts: Sequence[int]) -> list["Plan"]:
        """Split the plan into plans for the first ``counts[0]`` VMs, the next ``counts[1]`` VMs and so on.

        Each part is dispersed as if it had been planned alone after the parts before it: the first VM of a cluster
        goes where the owner has the fewest at its turn. If VMs were refused, the last parts lack them. A single
        count that equals the requested number returns the plan itself.
        """
        if list(counts) == [self.requested]:
            return [self]
        spread = self.spread
        order = np.argsort(spread.cluster_id, kind="stable")
        at = order[np.searchsorted(spread.cluster_id, self.cluster_ids, sorter=order)]
        by_cluster = np.argsort(at, kind="stable")
        first = np.searchsorted(at[by_cluster], at[by_cluster])
        turn = np.empty_like(at)
        turn[by_cluster] = np.arange(len(at)) - first
        queue = np.argsort(spread.before[at] + turn, kind="stable")
        parts, taken, before, left = [], 0, spread.before, spread.capacity
        for count in counts:
            vms = queue[taken : taken + count]
            added = np.bincount(at[vms], minlength=len(before))
            own = replace(spread, before=before, capacity=left, added=added)
            capacity = self.capacity - taken
            parts.append(replace(self.of(vms), requested=count, capacity=capacity, spread=own))
            taken, before, left = taken + len(vms), before + added, left - added
        return parts

    @property
    def placed(self) -> int:
        """The number of VMs that got a host."""
        return len(self.host_ids)

    @property
    def refused(self) -> int:
        """The number of VMs that got no host."""
        return self.requested - self.placed
