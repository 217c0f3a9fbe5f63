"""What placement reads and what it answers: a zone as columns, a request, a plan.

All arrays are numpy; hosts refer to clusters, and pools to clusters and hosts, by POSITION in the
columns (-1: none). Units: MHz, MiB, bytes. Nothing here does I/O; ``store.snapshot`` fills a
``ZoneSnapshot``, ``scheduling`` writes a ``Plan`` into the ledger.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bulkdeploy.domain.topology import AffinityType, StorageType

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClusterColumns:
    """One entry per cluster of the zone that is not removed, ordered by id.

    ``enabled``/``pod_enabled``: allocation states (the zone's is checked before). ``cpu_threshold``,
    ``memory_threshold``: share of the limit above which no new VM may push the cluster; infinite when
    thresholds are off. ``owner_vms``: the owner's VMs that have, or are about to have, a host here;
    ``all_vms``: everybody's.
    """

    id: Ints
    pod_id: Ints
    hypervisor: tuple[str, ...]
    enabled: Flags
    pod_enabled: Flags
    cpu_threshold: Floats
    memory_threshold: Floats
    owner_vms: Ints
    all_vms: Ints


@dataclass(frozen=True, slots=True)
class HostColumns:
    """One entry per host that is not removed, ordered by id.

    Limits are after over-commit. ``tag_set`` indexes ``ZoneSnapshot.tag_sets``. ``foreign`` marks hosts
    dedicated (by host, cluster, pod or zone) to somebody other than the owner, ``own`` those dedicated
    to the owner. ``owner_vms``: the owner's VMs on the host.
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
    """One entry per primary storage pool that is not removed, ordered by id.

    A pool of ZONE scope has cluster -1 and host -1; of CLUSTER scope host -1; of HOST scope (local
    storage) both. ``limit``: bytes that may be allocated (size x over-provisioning x threshold).
    ``hypervisor`` restricts a zone-wide pool; "" means any.
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
class ZoneSnapshot:
    """One zone at one moment, as one owner's request sees it."""

    clusters: ClusterColumns
    hosts: HostColumns
    pools: PoolColumns
    tag_sets: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Disk:
    """A volume that each VM needs: bytes, storage type and the tags its pool must carry."""

    size_bytes: int
    storage_type: StorageType
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Affinity:
    """An affinity group that the batch belongs to, and how many of its VMs each host (by id) has."""

    kind: AffinityType
    vms_by_host: Mapping[int, int]


class Strategy(StrEnum):
    """How VMs are spread over clusters; the value is the planner's CloudStack name where it has one."""

    COUNT_DISPERSING = "UserDispersingPlanner"
    FIRST_FIT = "FirstFitPlanner"
    USER_CONCENTRATED_POD = "UserConcentratedPodPlanner"
    IMPLICIT_DEDICATION = "ImplicitDedicationPlanner"


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """``count`` alike VMs to place.

    ``cpu_mhz`` is the speed of one core: a VM claims ``cpu_number * cpu_mhz`` MHz. Pins hold
    together. ``dedicated``: the batch is in an ExplicitDedication group and may use, and only
    uses, hosts dedicated to the owner. ``seed`` makes the random host algorithm repeatable.
    """

    count: int
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    hypervisor: str
    disks: tuple[Disk, ...] = ()
    host_tags: frozenset[str] = frozenset()
    pod_id: int | None = None
    cluster_id: int | None = None
    host_id: int | None = None
    avoid_host_ids: frozenset[int] = frozenset()
    affinities: tuple[Affinity, ...] = ()
    dedicated: bool = False
    strategy: Strategy = Strategy.COUNT_DISPERSING
    pods_first: bool = False
    host_algorithm: str = "random"
    seed: int = 0


class Reason(StrEnum):
    """Why a host was ruled out; rules apply in this order and the first that removed it counts.

    ``NOT_DEDICATED``: the batch may only use hosts dedicated to the owner, and this one is not.
    ``DEDICATION_NOT_ASKED``: the host is dedicated to the owner, and the batch is in no
    ExplicitDedication group. ``OCCUPIED_BY_OTHERS``: implicit dedication, and another account has VMs
    there. ``STORAGE`` and ``CLUSTER_THRESHOLD`` remove the hosts of a cluster that cannot take one VM.
    """

    OUT_OF_SCOPE = "out_of_scope"
    HYPERVISOR = "hypervisor"
    CLUSTER_DISABLED = "cluster_disabled"
    POD_DISABLED = "pod_disabled"
    HOST_NOT_UP = "host_not_up"
    HOST_NOT_ENABLED = "host_not_enabled"
    AVOIDED = "avoided"
    DEDICATED_TO_OTHERS = "dedicated_to_others"
    NOT_DEDICATED = "not_dedicated"
    DEDICATION_NOT_ASKED = "dedication_not_asked"
    OCCUPIED_BY_OTHERS = "occupied_by_others"
    HOST_TAGS = "host_tags"
    CPU_CORES = "cpu_cores"
    CPU_SPEED = "cpu_speed"
    CPU = "cpu"
    MEMORY = "memory"
    GUEST_LIMIT = "guest_limit"
    AFFINITY = "affinity"
    STORAGE = "storage"
    CLUSTER_THRESHOLD = "cluster_threshold"


class ClusterSpread(NamedTuple):
    """What a plan does to one eligible cluster: the owner's VMs before, how many more fit, how many it gets."""

    cluster_id: int
    pod_id: int
    before: int
    room: int
    added: int


@dataclass(frozen=True, slots=True)
class Spread:
    """What a plan does to all eligible clusters, a column per fact; one by one: ``ClusterSpread``."""

    cluster_id: Ints
    pod_id: Ints
    before: Ints
    room: Ints
    added: Ints

    def __iter__(self) -> Iterator[ClusterSpread]:
        facts = (self.cluster_id, self.pod_id, self.before, self.room, self.added)
        return map(ClusterSpread, *(fact.tolist() for fact in facts))


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each VM goes, in job order; clusters are interleaved so that load arrives evenly.

    ``host_ids``, ``cluster_ids``, ``pod_ids`` have one entry per placed VM; ``pool_ids`` has a row per
    placed VM and a column per disk. ``fits`` is how many of the asked VMs have room (= placed), and
    ``capacity`` how many such VMs the candidates hold in all. ``excluded`` counts hosts by the reason
    that removed them. placed + refused = asked, always.
    """

    asked: int
    host_ids: Ints
    cluster_ids: Ints
    pod_ids: Ints
    pool_ids: Ints
    capacity: int
    excluded: Mapping[Reason, int]
    spread: Spread

    @property
    def placed(self) -> int:
        """How many VMs got a host."""
        return len(self.host_ids)

    @property
    def refused(self) -> int:
        """How many did not."""
        return self.asked - self.placed
