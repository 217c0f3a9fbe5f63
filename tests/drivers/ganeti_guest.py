"""One guest and its life on a Ganeti cluster: what is recorded of a live cluster, and replayed."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.driver import GuestSpec, HypervisorDriver, NicSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress

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
