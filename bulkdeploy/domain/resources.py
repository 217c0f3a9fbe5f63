"""The types of resources with limits, with CloudStack's numbers, names and units."""

from dataclasses import dataclass
from enum import IntEnum

from bulkdeploy.domain.units import MIB


class ResourceType(IntEnum):
    """The resource types with limits. The value is the number in API calls (``resourcetype``)."""

    USER_VM = 0
    PUBLIC_IP = 1
    VOLUME = 2
    SNAPSHOT = 3
    TEMPLATE = 4
    PROJECT = 5
    NETWORK = 6
    VPC = 7
    CPU = 8
    MEMORY = 9
    PRIMARY_STORAGE = 10
    SECONDARY_STORAGE = 11

    @property
    def wire_name(self) -> str:
        """The name of the type in ``resourcetypename`` and in error texts, such as ``user_vm``."""
        return self.name.lower()

    @property
    def counted_in_bytes(self) -> bool:
        """Return whether the resource is storage, which is counted in bytes although API calls limit it in GiB."""
        return self in (ResourceType.PRIMARY_STORAGE, ResourceType.SECONDARY_STORAGE)

    @property
    def unit(self) -> int | None:
        """The number of bytes per unit of the count, or None if the resource is counted in pieces."""
        if self.counted_in_bytes:
            return 1
        return MIB if self is ResourceType.MEMORY else None


UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class ResourceAmounts:
    """The amounts of limited resources that a deployment or a VM uses.

    Units: VMs, volumes (count), CPU cores, memory MiB, primary storage bytes.
    """

    user_vm: int = 0
    volume: int = 0
    cpu: int = 0
    memory_mib: int = 0
    primary_storage_bytes: int = 0

    def by_type(self) -> dict[ResourceType, int]:
        """Return the amounts by resource type, in the units of the stored counts. Zero amounts are omitted."""
        amounts = {
            ResourceType.USER_VM: self.user_vm,
            ResourceType.VOLUME: self.volume,
            ResourceType.CPU: self.cpu,
            ResourceType.MEMORY: self.memory_mib,
            ResourceType.PRIMARY_STORAGE: self.primary_storage_bytes,
        }
        return {kind: amount for kind, amount in amounts.items() if amount}

    def plus(self, other: "ResourceAmounts") -> "ResourceAmounts":
        """Return the sum of these amounts and other amounts."""
        return ResourceAmounts(
            user_vm=self.user_vm + other.user_vm,
            volume=self.volume + other.volume,
            cpu=self.cpu + other.cpu,
            memory_mib=self.memory_mib + other.memory_mib,
            primary_storage_bytes=self.primary_storage_bytes + other.primary_storage_bytes,
        )

    def times(self, factor: int) -> "ResourceAmounts":
        """Return the amounts of ``factor`` equal VMs, of which these are the amounts of one."""
        return ResourceAmounts(
            user_vm=self.user_vm * factor,
            volume=self.volume * factor,
            cpu=self.cpu * factor,
            memory_mib=self.memory_mib * factor,
            primary_storage_bytes=self.primary_storage_bytes * factor,
        )


NOTHING = ResourceAmounts()
