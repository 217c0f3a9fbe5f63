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
"""The types of storage units (``StorageUnit.unit_type``) by CloudStack's names of the pool types."""


@dataclass(frozen=True, slots=True)
class StorageUnit:
    """A directory, mount, volume group or disk of one host.

    Attributes:
        unit_type: ``dir``, ``nfs``, ``lvm-vg``, ``lvm-pv``, or the hypervisor's own name of the type.
        name: the host's name of the unit, such as a path. It is unique among the host's units of this type.
        size_bytes, used_bytes, free_bytes: the size, the used space, and the free space. Used and free space add up
            to the size.
        is_allocatable: whether the hypervisor puts new data on the unit.
        is_healthy: whether the unit can be read and written, as far as the hypervisor knows.
        pool_uuid: the primary storage pool that the unit is on this host, or None if it is not a pool.
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
    """The ability to report the storage units of hosts, with sizes and health."""

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
            DriverError: the host does not answer.
        """

    def set_allocatable(self, host: HostAddress, unit: StorageUnit, *, allocatable: bool, timeout_s: float) -> None:
        """Allow or forbid new data on a storage unit that is no pool. Existing data is kept.

        Raises:
            DriverError: the unit is unchanged. If the hypervisor cannot do this for units of its type, the error is
                not transient.
        """
        del allocatable, timeout_s
        reason = f"its hypervisor cannot stop allocation on units of type {unit.unit_type}"
        raise DriverError("storage", host.name, reason, transient=False)


class StorageRepair(StorageUnits):
    """The ability to repair a storage unit that has lost some of its parts, such as disks."""

    ability_name = "repair of storage units"

    @abstractmethod
    def repair_unit(self, host: HostAddress, unit: StorageUnit, *, timeout_s: float) -> None:
        """Repair a storage unit by removing its lost parts.

        A unit without damage is not changed.

        The caller has ensured that all data of VMs has copies elsewhere. The driver ensures this for guests that
        only the hypervisor knows.

        Raises:
            DriverError: the unit is unchanged, for example because data of other guests has no copy elsewhere.
        """
