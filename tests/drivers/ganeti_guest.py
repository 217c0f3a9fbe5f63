"""One guest and its life on a Ganeti cluster: what is recorded of a live cluster, and replayed."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.driver import GuestSpec, HypervisorDriver, NicSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import Pool, TemplateImage

POOL = UUID("00000000-0000-4000-8000-0000000000f0")
VOLUME = VolumeSpec(UUID("00000000-0000-4000-8000-0000000000a1"), "ROOT-1", 1 << 20, POOL)
NIC = NicSpec(
    UUID("00000000-0000-4000-8000-0000000000b1"),
    "02:00:00:00:00:01",
    None,
    UUID("00000000-0000-4000-8000-0000000000f1"),
    None,
)
GUEST = GuestSpec(UUID("00000000-0000-4000-8000-0000000000c1"), "i-2-1-VM", 1, 500, 16, (VOLUME,), (NIC,))
ADDRESSES = tuple(
    HostAddress(UUID(int=0xD0 + n), f"node{n}", f"192.0.2.{9 + n}", "KVM", f"ganeti://node{n}") for n in (1, 2)
)
PATIENCE_S = 300.0


class FixedDirectory:
    """Two nodes and one pool, where no zone is set up."""

    def __init__(self, hosts: Sequence[HostAddress], pool_uuid: UUID) -> None:
        self._hosts, self._pool = tuple(hosts), Pool(pool_uuid, "shared", "SharedMountPoint", None, None, None)

    def hosts(self) -> Sequence[HostAddress]:
        """See Directory."""
        return self._hosts

    def hosts_of_pool(self, pool_uuid: UUID) -> Sequence[HostAddress]:
        """See Directory."""
        del pool_uuid
        return self._hosts

    def pools(self) -> Sequence[Pool]:
        """See Directory."""
        return [self._pool]

    def pools_of_host(self, host_uuid: UUID) -> Sequence[Pool]:
        """See Directory."""
        del host_uuid
        return [self._pool]

    def pools_of_volumes(self, volume_uuids: Collection[UUID]) -> Sequence[Pool]:
        """See Directory."""
        del volume_uuids
        return [self._pool]

    def template(self, template_uuid: UUID) -> TemplateImage | None:
        """See Directory."""
        del template_uuid
        return None


def life(driver: HypervisorDriver) -> Iterator[tuple[str, Any]]:
    """Its steps, each with what the driver says then."""
    first, second = ADDRESSES
    driver.ensure_running(first, GUEST, fence=1, timeout_s=PATIENCE_S)
    yield "started", list(driver.list_guests())
    driver.ensure_running(first, GUEST, fence=2, timeout_s=PATIENCE_S)
    yield "started again", driver.power_of(first, GUEST.uuid, fence=2, timeout_s=PATIENCE_S)
    driver.ensure_migrated(first, second, GUEST, fence=3, timeout_s=PATIENCE_S)
    yield "migrated", list(driver.list_guests())
    driver.ensure_stopped(second, GUEST.uuid, forced=True, fence=4, timeout_s=PATIENCE_S)
    yield "stopped", (list(driver.list_guests()), list(driver.list_volumes()))
    driver.ensure_absent(None, GUEST.uuid, [VOLUME.uuid], fence=5, timeout_s=PATIENCE_S)
    yield "removed", (list(driver.list_guests()), list(driver.list_volumes()))
