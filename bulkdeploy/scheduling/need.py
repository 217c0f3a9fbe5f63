"""What a deployment, a start or a retry needs of a place, and how that becomes a placement request."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Owner
from bulkdeploy.domain.topology import AffinityType, StorageType
from bulkdeploy.placement.model import Affinity, Disk, PlacementRequest, Strategy
from bulkdeploy.store.configuration import Configuration
from bulkdeploy.store.placed_vms import count_members_by_host, lock_affinity_groups


@dataclass(frozen=True, slots=True)
class PlacementNeed:
    """What each VM needs and where it may go; the same for all VMs of a batch.

    Units: MHz a core, MiB. ``planner`` is a CloudStack planner's name or None for count dispersion.
    Pins hold together. ``vm_id`` is the one VM where it exists already: it is not counted among the members of its
    groups. ``is_move``: it runs, so thresholds that keep clusters from filling up with new VMs do not bind it.
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
    planner: str | None = None
    vm_id: int | None = None
    is_move: bool = False

    @property
    def needs_local_storage(self) -> bool:
        """True when some disk must lie on the host itself."""
        return any(disk.storage_type is StorageType.LOCAL for disk in self.disks)


def placement_request(
    connection: Connection,
    configuration: Configuration,
    need: PlacementNeed,
    *,
    count: int,
    seed: int,
    avoid_host_ids: frozenset[int] = frozenset(),
) -> PlacementRequest:
    """The request for ``count`` VMs, with affinity groups as they stand now; their rows stay locked.

    Locking a group's row before counting its members is what keeps two calls at once from both
    finding the same host free (reference section 9.1: anti-affinity broken in batch starts).
    """
    affinities, dedicated = read_affinities(
        connection, configuration, need.affinity_group_ids, without_vm_id=need.vm_id
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
        strategy=Strategy.COUNT_DISPERSING if need.planner is None else Strategy(need.planner),
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
) -> tuple[tuple[Affinity, ...], bool]:
    """Each group with its VMs per host, and whether one of them is an ExplicitDedication group.

    A stopped VM still counts on its last host for ``capacity.skipcounting.hours`` seconds, one that migrates
    on both hosts.
    """
    if not group_ids:
        return (), False
    kinds = lock_affinity_groups(connection, group_ids)
    by_group = count_members_by_host(
        connection,
        list(kinds),
        stopped_counts_s=configuration.number("capacity.skipcounting.hours"),
        without_vm_id=without_vm_id,
    )
    affinities = tuple(
        Affinity(kind, by_group[group_id])
        for group_id, kind in kinds.items()
        if kind is not AffinityType.EXPLICIT_DEDICATION
    )
    return affinities, AffinityType.EXPLICIT_DEDICATION in kinds.values()
