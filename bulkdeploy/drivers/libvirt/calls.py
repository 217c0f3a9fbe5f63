"""The base of the driver's calls for one guest: they run one at a time, are fenced, and use the host's pools."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.exchanges.turns import Turns
from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall, Links
from bulkdeploy.drivers.libvirt.disk_sources import DiskSource
from bulkdeploy.drivers.libvirt.domain import Disk, SeenDomain, read_domain
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.libvirt.storage.pools import StoragePool, open_pool
from bulkdeploy.drivers.libvirt.storage.storage import FORMATS, Backing, copy_name
from bulkdeploy.drivers.records import FencedGuest, Pool, Records

T = TypeVar("T")
UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
)


class GuestCalls:
    """The base of all driver calls for guests: fences, pools and volumes.

    The calls for one guest run one after the other. Threads may share the object.

    Attributes:
        records: the records of the driver, which sets them before the first call.
    """

    records: Records

    def __init__(self, options: LibvirtOptions, links: Links) -> None:
        self.options, self.links = options, links
        self.turns = Turns()
        self._pools: dict[UUID, Pool] = {}
        self._copies: dict[tuple[str, UUID], Backing] = {}
        self._sizes: dict[tuple[str, UUID], int] = {}

    def of_guest(
        self, step: str, host: HostAddress, guest_uuid: UUID, timeout_s: float, work: Callable[[HostCall], T]
    ) -> T:
        """Run ``work`` for one guest on one host after all earlier calls for this guest, even delayed ones.

        Raises:
            DriverError: ``work`` failed, or did not end within ``timeout_s`` seconds.
        """
        deadline = Deadline(timeout_s)

        def alone(call: HostCall) -> T:
            with self.turns.of(guest_uuid, step, host.name, timeout_s=deadline.left_s()):
                return work(call)

        return self.links.run(step, host, deadline, alone)

    def fenced(self, host: HostAddress | None, guest_uuid: UUID, fence: int) -> FencedCall:
        """Return the fence of a call for a guest. ``host`` is None for a call that is not for one host."""
        return FencedCall(self.records.fences, host, guest_uuid, fence, 0.0)

    def claim(
        self, call: HostCall, step: str, guest: GuestSpec, volume_uuids: Collection[UUID], fence: int
    ) -> FencedGuest:
        """Record the fence, and record that the guest is on this host with these volumes.

        Raises:
            DriverError: the guest is on another host or moves to one, or another guest uses one of the volumes.
        """
        fenced = self.fenced(call.host, guest.uuid, fence)
        where = fenced.claim(step, volume_uuids)
        if where.host_uuids - {call.host.uuid}:
            raise fenced.elsewhere(step)
        return where

    def known_pool(self, pool_uuid: UUID) -> Pool:
        """Return the record of a pool.

        Raises:
            DriverError: no host can access the pool.
        """
        if pool_uuid not in self._pools:
            self._pools |= {pool.uuid: pool for pool in self.records.directory.pools()}
        if pool_uuid not in self._pools:
            raise DriverError("volume", ANY_HOST, f"no host can access pool {pool_uuid}", transient=False)
        return self._pools[pool_uuid]

    def pool(self, call: HostCall, pool_uuid: UUID) -> StoragePool:
        """Return a pool as the guests of this host use it."""
        return open_pool(call, self.known_pool(pool_uuid), self.options)

    def at_any_host(
        self, step: str, pool_uuid: UUID, deadline: Deadline, work: Callable[[HostCall], T], *others: UUID
    ) -> T:
        """Run ``work`` on the first answering host that can access this pool and all ``others``.

        Raises:
            DriverError: ``work`` failed, or no such host answers.
        """
        failed: DriverError | None = None
        reach = [{host.uuid for host in self.records.directory.hosts_of_pool(other)} for other in others]
        for host in self.records.directory.hosts_of_pool(pool_uuid):
            if not all(host.uuid in reaching for reaching in reach):
                continue
            try:
                return self.links.call(step, host, deadline, work)
            except DriverError as error:
                if error.step != "connect" and not error.unanswered:
                    raise
                failed = error
        if failed is not None:
            raise failed
        raise DriverError(step, ANY_HOST, f"no host can access pool {pool_uuid}", transient=True)

    def ensure_volume(
        self,
        call: HostCall,
        step: str,
        guest_uuid: UUID,
        volume: VolumeSpec,
        fence: int,
        is_open_here: Callable[[], bool],
    ) -> Disk:
        """Create a volume unless it exists, based on its template's copy if it has one, and return it as a disk.

        The guest has claimed the volume and did not run with it, so no other client may have it open. Ceph clients
        that have it open are blocked. ``is_open_here`` returns True if the guest itself has opened the volume since
        then, because an earlier call reached the host late. In that case no client is blocked.

        Raises:
            DriverError: the guest has opened the volume since then. A retry finds the guest running with it.
        """

        def require_eviction() -> None:
            self.fenced(call.host, guest_uuid, fence).check_fence(step)
            if is_open_here():
                reason = f"an earlier call reached the host late: the guest has volume {volume.uuid} open"
                raise DriverError(step, call.host.name, reason, transient=True)

        pool = self.pool(call, volume.pool_uuid)
        disk = pool.ensure(volume, self._backing(call, pool, volume))
        pool.evict_clients(volume.uuid, require_eviction)
        return disk

    def _backing(self, call: HostCall, pool: StoragePool, volume: VolumeSpec) -> Backing | None:
        if volume.template_uuid is None:
            return None
        copy = self.find_copy(volume.template_uuid, volume.pool_uuid)
        if copy is None:
            reason = f"pool {pool.pool.name} does not have template {volume.template_uuid}"
            raise DriverError("volume", call.host.name, reason, transient=True)
        key = (copy.name, volume.pool_uuid)
        if key not in self._sizes:
            self._sizes[key] = pool.size_of_copy(copy)
        if self._sizes[key] > volume.size_bytes:  # a smaller overlay would cut off the template's data
            sizes = f"the template's disk has {self._sizes[key]} bytes, the volume {volume.size_bytes}"
            reason = f"{sizes}: set a larger rootdisksize"
            raise DriverError("volume", call.host.name, reason, transient=False)
        return copy

    def find_copy(self, template_uuid: UUID, pool_uuid: UUID) -> Backing | None:
        """Return a pool's copy of a template with its current checksum, or None if the pool has none yet.

        The result is cached after a copy was found.
        """
        image = self.records.directory.template(template_uuid)
        if image is None:
            return None
        key = (image.key, pool_uuid)
        if key not in self._copies:
            attempt = self.records.copies.find(template_uuid, pool_uuid, image.checksum)
            if attempt is None:
                return None
            self._copies[key] = Backing(copy_name(image.uuid, attempt), FORMATS[image.image_format.upper()])
        return self._copies[key]

    def iso(self, call: HostCall, guest: GuestSpec) -> DiskSource | None:
        """Return the disk source of the ISO for a guest's drive, or None if the drive is empty.

        The ISO is in the pool of the guest's root volume.

        Raises:
            DriverError: the pool does not have the ISO.
        """
        if guest.iso_uuid is None:
            return None
        pool = self.pool(call, guest.volumes[0].pool_uuid)
        copy = self.find_copy(guest.iso_uuid, pool.pool.uuid)
        if copy is None:
            reason = f"pool {pool.pool.name} does not have ISO {guest.iso_uuid}"
            raise DriverError("volume", call.host.name, reason, transient=True)
        return pool.source(copy.name)


@contextmanager
def suppress_gone() -> Iterator[None]:
    """Suppress libvirt's errors about a domain that does not exist or is already stopped."""
    try:
        yield
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
            raise


def find_domain(call: HostCall, guest_uuid: UUID) -> Any | None:
    """Return a guest's domain from this host's daemon, or None if the daemon does not have it."""
    try:
        return call.connection.lookupByUUID(guest_uuid.bytes)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_DOMAIN):
            raise
        return None


def is_running(call: HostCall, guest_uuid: UUID) -> bool:
    """Return whether a guest runs on this host."""
    domain = find_domain(call, guest_uuid)
    return domain is not None and bool(domain.isActive())


def running_guest(call: HostCall, step: str, guest_uuid: UUID) -> tuple[Any, SeenDomain]:
    """Return the domain of a guest and its parsed definition.

    Raises:
        DriverError: the guest does not run on this host.
    """
    domain = find_domain(call, guest_uuid)
    seen = read_domain(domain.XMLDesc()) if domain is not None and domain.isActive() else None
    if seen is None:
        raise DriverError(step, call.host.name, "the guest does not run here", transient=False)
    return domain, seen


def undefine(domain: Any) -> None:
    """Undefine a guest. Its firmware variables and its volumes are kept."""
    with suppress_gone():
        if domain.isPersistent():
            domain.undefineFlags(UNDEFINE)


def affected(domain: Any) -> int:
    """Return the flags for a change of a running guest and of its persistent definition, if it has one."""
    live, config = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG
    return int(live | config if domain.isPersistent() else live)
