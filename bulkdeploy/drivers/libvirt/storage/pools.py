"""The types of storage pools that libvirt hosts can have, and their common protocol."""

from collections.abc import Callable, Iterator
from typing import Protocol
from uuid import UUID

from bulkdeploy.domain.infrastructure.storage_urls import RBD
from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.guests import VolumeSpec
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.disk_sources import DiskSource
from bulkdeploy.drivers.libvirt.domain import Disk
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.libvirt.storage.rbd_pools import RbdPool
from bulkdeploy.drivers.libvirt.storage.storage import Backing, FilePool, pool_xml
from bulkdeploy.drivers.records import Pool


class StoragePool(Protocol):
    """A storage pool as the guests of one host use it."""

    pool: Pool

    def volume_name(self, volume_uuid: UUID) -> str:
        """Return the name of a volume's file or image in the pool."""

    def source(self, name: str) -> DiskSource:
        """Return the file or image with this name as the source of a disk."""

    def ensure(self, spec: VolumeSpec, backing: Backing | None) -> Disk:
        """Create a volume unless it exists, enlarge it to the requested size, and return it as a disk."""

    def evict_clients(self, volume_uuid: UUID, check: Callable[[], None]) -> None:
        """Block all clients that have a volume open for writing.

        ``check`` is called first and may raise an error.
        """

    def size_of_copy(self, backing: Backing) -> int:
        """Return the size of the disk in a template's copy in bytes."""

    def last_write(self, volume_uuid: UUID) -> str:
        """Return the time of the last write to a volume as text, or an empty text if the volume does not exist."""

    def resize(self, spec: VolumeSpec) -> None:
        """Resize a volume that no guest has open. Nothing is done if the volume does not exist."""

    def size_of(self, volume_uuid: UUID) -> int | None:
        """Return a volume's size in bytes, or None if the volume does not exist."""

    def remove(self, name: str) -> None:
        """Delete the file or image with this name. A missing one is no error."""

    def write(self, name: str, content: bytes) -> DiskSource:
        """Write a small file under a name and return the file as the source of a disk.

        An existing file of this name is replaced.
        """

    def put(self, name: str, image_format: str, chunks: Iterator[bytes], size_bytes: int) -> None:
        """Write the copy of a template, from which volumes can be created."""

    def volumes(self) -> Iterator[tuple[UUID, int]]:
        """Yield the uuid and the size in bytes of every volume of the service."""


def open_pool(call: HostCall, pool: Pool, options: LibvirtOptions) -> StoragePool:
    """Return a pool as the guests of a host use it.

    The pool is defined in the host's daemon if it is missing.

    Raises:
        DriverError: libvirt hosts cannot use pools of this type.
    """
    if is_ceph(pool):
        return RbdPool(call, pool)
    return FilePool(call, pool, options)


def is_ceph(pool: Pool) -> bool:
    """Return whether a pool is a Ceph pool."""
    return pool.pool_type == RBD


def is_usable(pool: Pool, options: LibvirtOptions) -> bool:
    """Return whether hosts of this driver can use the pool. The service stores no volumes in other pools."""
    if is_ceph(pool):
        return True
    try:
        pool_xml(pool, options, ANY_HOST)
    except DriverError:
        return False
    return True
