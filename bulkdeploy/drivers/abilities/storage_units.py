"""Storage units: the disks, mounts and volume groups that a hypervisor reports (docs/how-to/storage-units.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

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
