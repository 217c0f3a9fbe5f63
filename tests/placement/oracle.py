"""What the planner must answer, found the slow way: one VM at a time, in plain Python, by the rules' words."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from math import isinf

from bulkdeploy.domain.infrastructure.topology import AffinityType, StorageType
from bulkdeploy.placement.model import Affinity, Disk, PlacementRequest, Purpose
from tests.placement.zone_builder import Cluster, Host, Pool, Zone

MANY = 10_000


@dataclass
class Answer:
    """VMs per cluster id, and which rule removed each host that is no candidate."""

    per_cluster: dict[int, int] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)


def place_one_by_one(zone: Zone, request: PlacementRequest) -> Answer:
    """Place the request's VMs one after the other, each on what the ones before left."""
    return _Oracle(deepcopy(zone), request).answer()


def first_reason(zone: Zone, request: PlacementRequest, host: Host) -> str | None:
    """The first rule, in their order, that excludes the host by itself; None: it may take a VM."""
    rules = (rule for rule in RULES if request.purpose not in LIFTED or rule[0] not in LIFTED[request.purpose])
    return next((reason for reason, excludes in rules if excludes(zone, request, host)), None)


def _occupied(zone: Zone, request: PlacementRequest, host: Host) -> bool:  # noqa: ARG001 - one shape for all rules
    planners = (request.planner, request.offering_planner)
    return "ImplicitDedicationPlanner" in planners and host.vms_used > host.owner_vms


def _affinity_forbids(zone: Zone, request: PlacementRequest, host: Host) -> bool:  # noqa: ARG001 - as above
    for affinity in request.affinities:
        here = affinity.vms_by_host.get(host.id, 0)
        if affinity.kind is AffinityType.HOST_ANTI_AFFINITY and here:
            return True
        if affinity.kind is AffinityType.HOST_AFFINITY and any(affinity.vms_by_host.values()) and not here:
            return True
    return False


Rule = Callable[[Zone, PlacementRequest, Host], bool]


def _pinned_elsewhere(zone: Zone, request: PlacementRequest, host: Host) -> bool:
    pod_id = zone.cluster(host.cluster_id).pod_id
    pins = ((request.host_id, host.id), (request.cluster_id, host.cluster_id), (request.pod_id, pod_id))
    return any(pin is not None and pin != actual for pin, actual in pins)


RULES: tuple[tuple[str, Rule], ...] = (
    ("out_of_scope", _pinned_elsewhere),
    ("hypervisor", lambda zone, request, host: zone.cluster(host.cluster_id).hypervisor != request.hypervisor),
    ("cluster_disabled", lambda zone, _, host: not zone.cluster(host.cluster_id).enabled),
    ("pod_disabled", lambda zone, _, host: not zone.cluster(host.cluster_id).pod_enabled),
    ("host_not_up", lambda _, __, host: not host.up),
    ("host_not_enabled", lambda _, __, host: not host.enabled),
    ("avoided", lambda _, request, host: host.id in request.avoid_host_ids),
    ("dedicated_to_others", lambda _, __, host: host.foreign),
    ("not_dedicated", lambda _, request, host: request.dedicated and not host.own),
    ("dedication_not_requested", lambda _, request, host: host.own and not request.dedicated),
    ("occupied_by_others", _occupied),
    ("host_tags", lambda _, request, host: not request.host_tags <= host.tags),
    ("cpu_cores", lambda _, request, host: host.cores < request.cpu_number),
    ("cpu_speed", lambda _, request, host: host.mhz < request.cpu_mhz),
    ("cpu", lambda _, request, host: host.cpu_used + request.cpu_number * request.cpu_mhz > host.cpu_limit),
    ("memory", lambda _, request, host: host.memory_used + request.memory_mib > host.memory_limit),
    ("guest_limit", lambda _, __, host: host.vms_used >= host.vms_limit),
    ("affinity", _affinity_forbids),
    (
        "storage",
        lambda zone, request, host: (
            store(zone, request, host, StorageType.LOCAL) is None
            or store(zone, request, host, StorageType.SHARED) is None
        ),
    ),
    (
        "cluster_threshold",
        lambda zone, request, host: crosses_threshold(zone, request, zone.cluster(host.cluster_id), 1),
    ),
)


ABOUT_SIZES = {"host_tags", "cpu_cores", "cpu_speed", "cpu", "memory"}
LIFTED: dict[Purpose, set[str]] = {
    Purpose.MOVE: {"cluster_threshold"},
    Purpose.GROW: {reason for reason, _ in RULES} - {"out_of_scope"} - ABOUT_SIZES,
}
"""Rules that do not hold for a purpose: what moves may fill clusters up, what stays where it is may stay there."""


def crosses_threshold(zone: Zone, request: PlacementRequest, cluster: Cluster, vms: int) -> bool:
    """Whether so many more VMs push the cluster's live hosts over a threshold."""
    live = [host for host in zone.hosts_of(cluster) if host.up and host.enabled]
    cpu = sum(host.cpu_used for host in live) + vms * request.cpu_number * request.cpu_mhz
    memory = sum(host.memory_used for host in live) + vms * request.memory_mib
    return any(
        not isinf(threshold) and used / max(limit, 1) > threshold
        for threshold, used, limit in (
            (cluster.cpu_threshold, cpu, sum(host.cpu_limit for host in live)),
            (cluster.memory_threshold, memory, sum(host.memory_limit for host in live)),
        )
    )


def serves(pool: Pool, disk: Disk, request: PlacementRequest, host: Host) -> bool:
    """Whether the pool may take the disk of a VM on that host, room aside."""
    if not (pool.up and disk.tags <= pool.tags):
        return False
    if disk.storage_type is StorageType.LOCAL:
        return pool.host_id == host.id
    if pool.host_id is not None or pool.cluster_id not in (None, host.cluster_id):
        return False
    return pool.cluster_id is not None or pool.hypervisor in ("", request.hypervisor)


def store(zone: Zone, request: PlacementRequest, host: Host, storage_type: StorageType) -> list[Pool] | None:
    """First fit: pools for one VM's disks of a storage type, own ones before the zone's; None: no room.

    Nothing is booked.
    """
    disks = [disk for disk in request.disks if disk.storage_type is storage_type]
    load: dict[int, int] = {}
    chosen = []
    for disk in disks:

        def turn(pool: Pool) -> tuple[bool, int, int]:
            wanted_by = sum(serves(pool, other, request, host) for other in disks)
            return pool.cluster_id is None, wanted_by, pool.id

        for pool in sorted((pool for pool in zone.pools if serves(pool, disk, request, host)), key=turn):
            if pool.allocated + load.get(pool.id, 0) + disk.size_bytes <= max(pool.limit, pool.allocated):
                load[pool.id] = load.get(pool.id, 0) + disk.size_bytes
                chosen.append(pool)
                break
        else:
            return None
    return chosen


class _Oracle:
    """The state between one VM and the next."""

    def __init__(self, zone: Zone, request: PlacementRequest) -> None:
        self.zone = zone
        self.request = request
        self.affinities = {number: dict(group.vms_by_host) for number, group in enumerate(request.affinities)}
        self.taken = {cluster.id: 0 for cluster in zone.clusters}
        self.start = deepcopy(zone)

    def answer(self) -> Answer:
        reasons = {host.id: self._reason(host) for host in self.zone.hosts}
        self.only = self._only_host(reasons)
        if self.only is not None:
            reasons |= {id_: "affinity" for id_, reason in reasons.items() if reason is None and id_ != self.only}
        self.free = {cluster.id: self._free_slots(cluster) for cluster in self.zone.clusters}
        while sum(self.taken.values()) < self.request.count and self._place_one():
            pass
        found = {host_id: reason for host_id, reason in reasons.items() if reason is not None}
        return Answer({id_: vms for id_, vms in self.taken.items() if vms}, found)

    def _request_now(self) -> PlacementRequest:
        groups = tuple(
            Affinity(group.kind, self.affinities[number]) for number, group in enumerate(self.request.affinities)
        )
        return PlacementRequest(
            **{
                name: getattr(self.request, name)
                for name in PlacementRequest.__dataclass_fields__
                if name != "affinities"
            },
            affinities=groups,
        )

    def _reason(self, host: Host) -> str | None:
        return first_reason(self.zone, self._request_now(), host)

    def _place_one(self) -> bool:
        open_clusters = {
            host.cluster_id
            for host in self.zone.hosts
            if self._reason(host) is None and self.only in (None, host.id)
        }
        if not open_clusters:
            return False
        clusters = [cluster for cluster in self.zone.clusters if cluster.id in open_clusters]
        chosen = min(clusters, key=self._key)
        hosts = [host for host in self.zone.hosts_of(chosen) if self._reason(host) is None]
        host = next(host for host in hosts if self.only in (None, host.id))
        self._book(self.zone, host)
        self.taken[chosen.id] += 1
        for group in self.affinities.values():
            group[host.id] = group.get(host.id, 0) + 1
        return True

    def _book(self, zone: Zone, host: Host) -> None:
        stored = [
            iter(store(zone, self.request, host, storage_type) or ())
            for storage_type in (StorageType.LOCAL, StorageType.SHARED)
        ]
        for disk in self.request.disks:
            pool = next(stored[disk.storage_type is StorageType.SHARED], None)
            if pool is not None:
                pool.allocated += disk.size_bytes
        host.cpu_used += self.request.cpu_number * self.request.cpu_mhz
        host.memory_used += self.request.memory_mib
        host.vms_used += 1
        host.owner_vms += 1

    def _free_slots(self, cluster: Cluster) -> int:
        """How many VMs fit into the cluster with the zone's pools taken as endless; 0 if it is closed now."""
        usable = [
            host
            for host in self.zone.hosts_of(cluster)
            if self._reason(host) is None and self.only in (None, host.id)
        ]
        if not usable:
            return 0
        if self.only is not None:
            return self._capacity_of(usable[0], self.zone)
        endless = deepcopy(self.zone)
        for pool in endless.pools:
            if pool.cluster_id is None and pool.host_id is None:
                pool.limit = 1 << 60
        return sum(self._capacity_of(endless.host(host.id), endless, copy=False) for host in usable)

    def _capacity_of(self, host: Host, zone: Zone, *, copy: bool = True) -> int:
        """How many VMs fit on the host, filling it up."""
        zone = deepcopy(zone) if copy else zone
        host = zone.host(host.id)
        alone = any(group.kind is AffinityType.HOST_ANTI_AFFINITY for group in self.request.affinities)
        capacity = 0
        while capacity < (1 if alone else MANY) and first_reason(zone, self.request, host) is None:
            self._book(zone, host)
            capacity += 1
        return capacity

    def _only_host(self, reasons: dict[int, str | None]) -> int | None:
        """The host with most room, where a host affinity group without VMs binds the batch to one."""
        groups = self.request.affinities
        if "affinity" in LIFTED.get(self.request.purpose, ()):
            return None
        if all(group.kind is not AffinityType.HOST_AFFINITY or any(group.vms_by_host.values()) for group in groups):
            return None
        candidates = [host for host in self.zone.hosts if reasons[host.id] is None]
        if not candidates:
            return None

        def rank(host: Host) -> tuple[int, int, int, int]:
            cluster = self.zone.cluster(host.cluster_id)
            return -self._capacity_of(host, self.zone), cluster.owner_vms, cluster.id, host.id

        return min(candidates, key=rank).id

    def _key(self, cluster: Cluster) -> tuple[float, ...]:
        by_cluster = self._count_key([cluster], cluster.id)
        pod = [other for other in self.zone.clusters if other.pod_id == cluster.pod_id]
        by_pod = self._count_key(pod, cluster.pod_id)
        match self.request.planner:
            case "UserDispersingPlanner":
                return (*by_pod, *by_cluster) if self.request.pods_first else by_cluster
            case "UserConcentratedPodPlanner":
                return (-by_pod[0], cluster.pod_id, -by_cluster[0], self._cpu([cluster]), cluster.id)
        pods = (self._cpu(pod), cluster.pod_id) if self.request.pods_first else ()
        return (*pods, self._cpu([cluster]), cluster.id)

    def _count_key(self, clusters: list[Cluster], id_: int) -> tuple[float, ...]:
        """Fewest of the owner's VMs, fewest VMs in all, most free slots, lowest id."""
        taken = sum(self.taken[cluster.id] for cluster in clusters)
        free = sum(self.free[cluster.id] for cluster in clusters) - taken
        owner_vms = sum(cluster.owner_vms for cluster in clusters) + taken
        return owner_vms, sum(cluster.all_vms for cluster in clusters) + taken, -free, id_

    def _cpu(self, clusters: list[Cluster]) -> float:
        """The share of CPU in use before the batch."""
        hosts = [
            host
            for cluster in clusters
            for host in self.start.hosts_of(self.start.cluster(cluster.id))
            if host.up and host.enabled
        ]
        return sum(host.cpu_used for host in hosts) / max(sum(host.cpu_limit for host in hosts), 1)
