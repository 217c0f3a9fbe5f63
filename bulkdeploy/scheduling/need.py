"""The needs of a deployment, a start or a retry, and the placement request that follows from them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.domain.infrastructure.topology import AffinityType, StorageType
from bulkdeploy.placement.model import COUNT_DISPERSING, Affinity, Disk, PlacementRequest, Purpose
from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.ledger.placed_vms import (
    count_members_by_host,
    lock_affinity_groups,
    read_affinity_groups,
    read_memberships,
)

APART = frozenset({AffinityType.HOST_ANTI_AFFINITY, AffinityType.NON_STRICT_HOST_ANTI_AFFINITY})


@dataclass(frozen=True, slots=True)
class PlacementNeed:
    """The requirements of each VM of a batch for its host. CPU speed is in MHz per core, memory in MiB.

    ``planner`` is the name of a CloudStack planner. Hosts that ``offering_planner`` (of the service offering)
    excludes are always excluded. All pins apply together. ``vm_id`` is given if the need is that of one existing
    VM with affinity groups, which then does not count as a member of its groups.
    """

    owner: Owner
    zone_id: int
    hypervisor: str
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    disks: tuple[Disk, ...] = ()
    host_tags: frozenset[str] = frozenset()
    affinity_group_ids: tuple[int, ...] = ()
    pod_id: int | None = None
    cluster_id: int | None = None
    host_id: int | None = None
    planner: str = COUNT_DISPERSING
    offering_planner: str | None = None
    vm_id: int | None = None
    purpose: Purpose = Purpose.START

    @property
    def needs_local_storage(self) -> bool:
        """True if a disk must be on the host's own storage."""
        return any(disk.storage_type is StorageType.LOCAL for disk in self.disks)


def choose_planners(
    configuration: Configuration, *, bulk: bool, named: str | None, offering: str | None
) -> tuple[str, str | None]:
    """Return the planner for a VM, and a second planner whose exclusions apply too, or None.

    A planner that the call names takes precedence. Otherwise the VMs of a bulk deployment are spread evenly over
    the hosts that the offering's planner allows. A single deployment uses the planner of its offering, or else the
    setting ``vm.deployment.planner`` (cloudstack-protocol.md 6.1).
    """
    if named is not None:
        return named, None
    if bulk:
        return COUNT_DISPERSING, offering
    return offering or configuration.text("vm.deployment.planner"), None


def placement_request(
    connection: Connection,
    configuration: Configuration,
    need: PlacementNeed,
    *,
    count: int,
    seed: int,
    avoid_host_ids: frozenset[int] = frozenset(),
    lock: bool = True,
    members: "AffinityMembers | None" = None,
) -> PlacementRequest:
    """Return the request for ``count`` VMs with the current members of affinity groups.

    If ``lock`` is set, the rows of the groups stay locked: otherwise two calls could count the same host as free
    (CloudStack issues 5527 and 7202: anti-affinity violated by simultaneous starts). ``members`` has the groups if
    they were read for many VMs together.
    """
    if members is not None:
        affinities, dedicated = members.of(need)
    else:
        affinities, dedicated = read_affinities(
            connection, configuration, need.affinity_group_ids, without_vm_id=need.vm_id, lock=lock
        )
    return PlacementRequest(
        count=count,
        cpu_number=need.cpu_number,
        cpu_mhz=need.cpu_mhz,
        memory_mib=need.memory_mib,
        hypervisor=need.hypervisor,
        disks=need.disks,
        host_tags=need.host_tags,
        pod_id=need.pod_id,
        cluster_id=need.cluster_id,
        host_id=need.host_id,
        avoid_host_ids=avoid_host_ids,
        affinities=affinities,
        dedicated=dedicated,
        purpose=need.purpose,
        planner=need.planner,
        offering_planner=need.offering_planner,
        pods_first=configuration.flag("apply.allocation.algorithm.to.pods"),
        host_algorithm=configuration.text("vm.allocation.algorithm"),
        seed=seed,
    )


def read_affinities(
    connection: Connection,
    configuration: Configuration,
    group_ids: Sequence[int],
    *,
    without_vm_id: int | None = None,
    lock: bool = True,
) -> tuple[tuple[Affinity, ...], bool]:
    """Return the affinity groups with their VMs per host, and whether one is an ExplicitDedication group.

    A stopped VM counts on its last host for ``capacity.skipcounting.hours`` seconds. A migrating VM counts on both
    hosts.
    """
    if not group_ids:
        return (), False
    kinds = (lock_affinity_groups if lock else read_affinity_groups)(connection, group_ids)
    by_group = count_members_by_host(
        connection,
        list(kinds),
        stopped_counts_s=configuration.number("capacity.skipcounting.hours"),
        without_vm_id=without_vm_id,
    )
    return _affinities(kinds, by_group)


def _affinities(
    kinds: Mapping[int, AffinityType], by_group: Mapping[int, Mapping[int, int]]
) -> tuple[tuple[Affinity, ...], bool]:
    affinities = tuple(
        Affinity(kind, by_group[group_id], group_id)
        for group_id, kind in kinds.items()
        if kind is not AffinityType.EXPLICIT_DEDICATION
    )
    return affinities, AffinityType.EXPLICIT_DEDICATION in kinds.values()


class AffinityMembers:
    """The members of the affinity groups of many existing VMs, read together without locks.

    Args:
        connection: has an open transaction.
        configuration: contains the time for which a stopped VM counts on its last host.
        groups: the ids of the groups of each VM.
    """

    def __init__(
        self, connection: Connection, configuration: Configuration, groups: Mapping[int, Sequence[int]]
    ) -> None:
        seconds = configuration.number("capacity.skipcounting.hours")
        ids = sorted({group_id for of_vm in groups.values() for group_id in of_vm})
        self._kinds = read_affinity_groups(connection, ids) if ids else {}
        self._counts = count_members_by_host(connection, ids, stopped_counts_s=seconds) if ids else {}
        vm_ids = [vm_id for vm_id, of_vm in groups.items() if of_vm]
        self._memberships = read_memberships(connection, vm_ids, stopped_counts_s=seconds) if ids else {}

    def of(self, need: PlacementNeed) -> tuple[tuple[Affinity, ...], bool]:
        """Return the result of ``read_affinities`` for the need of one VM.

        A VM that moves also counts on the host that it leaves: other VMs of the batch must not get that host before
        it has left.
        """
        own = Counter(self._memberships.get(need.vm_id, ()) if need.vm_id is not None else ())
        counts = {}
        for group_id in need.affinity_group_ids:
            by_host = self._counts[group_id]
            if need.purpose is Purpose.MOVE and self._kinds.get(group_id) in APART:
                counts[group_id] = by_host
                continue
            counts[group_id] = {
                host_id: vms - own[group_id, host_id]
                for host_id, vms in by_host.items()
                if vms > own[group_id, host_id]
            }
        return _affinities(
            {group_id: self._kinds[group_id] for group_id in counts if group_id in self._kinds}, counts
        )
