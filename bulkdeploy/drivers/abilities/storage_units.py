"""Storage units: the disks, mounts and volume groups that a hypervisor reports (docs/how-to/storage-units.md)."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.parallel_calls import call_each
from bulkdeploy.drivers.hosts import HostAddress

TYPES_OF_POOLS: Mapping[str, str] = MappingProxyType(
    {"Filesystem": "dir", "NetworkFilesystem": "nfs", "SharedMountPoint": "dir"}
)
"""The type of a pool's unit, by CloudStack's name of the pool's type."""


@dataclass(frozen=True, slots=True)
class StorageUnit:
    """A directory, mount, volume group or disk of one host.

    Attributes:
        unit_type: ``dir``, ``nfs``, ``lvm-vg``, ``lvm-pv``, or as the hypervisor calls it.
        name: what the host calls it, such as a path; of one type no two units of a host have the same.
        size_bytes, used_bytes, free_bytes: in all, what is taken by whatever is there, and what is left for more.
            Used and free add up to the size.
        is_allocatable: whether the hypervisor puts new data there.
        is_healthy: whether it can be read and written, as far as the hypervisor knows.
        pool_uuid: the primary storage pool that it is on this host; None: it is none of ours.
    """

    unit_type: str
    name: str
    size_bytes: int
    used_bytes: int
    free_bytes: int
    is_allocatable: bool = True
    is_healthy: bool = True
    pool_uuid: UUID | None = None


class StorageUnits(Ability):
    """The ability to report where hosts store data, with sizes and health."""

    ability_name = "listing of storage units"

    def look_at_storage(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[StorageUnit] | DriverError]:
        """Return the storage units of each host, or an error, in order.

        HOSTS_AT_ONCE hosts are queried at a time.
        """
        return call_each(hosts, lambda host: self.units_of_host(host, timeout_s=timeout_s))

    @abstractmethod
    def units_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[StorageUnit]:
        """Return the storage units of a host without changing anything.

        Raises:
            DriverError: it does not answer.
        """

    def set_allocatable(self, host: HostAddress, unit: StorageUnit, *, allocatable: bool, timeout_s: float) -> None:
        """Allow or forbid new data on a storage unit that is no pool. Existing data is kept.

        Raises:
            DriverError: it is as it was; or the hypervisor does not stop units of this type (transient False).
        """
        del allocatable, timeout_s
        reason = f"its hypervisor cannot stop allocation on units of type {unit.unit_type}"
        raise DriverError("storage", host.name, reason, transient=False)


class StorageRepair(StorageUnits):
    """The ability to repair a storage unit without the parts that are lost."""

    ability_name = "repair of storage units"

    @abstractmethod
    def repair_unit(self, host: HostAddress, unit: StorageUnit, *, timeout_s: float) -> None:
        """Repair a storage unit without its lost parts. A unit without damage is not changed.

        The caller has ensured that all data of VMs has copies elsewhere. The driver ensures this for guests that
        only the hypervisor knows.

        Raises:
            DriverError: it is as it was, such as where data of other guests is nowhere else.
        """
