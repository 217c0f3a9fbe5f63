"""One guest and its life on an Incus cluster: what is recorded of a live cluster, and replayed."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.guests import GuestSpec, NicSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.incus.driver import IncusDriver
from bulkdeploy.drivers.records import TemplateImage
from tests.support.runs.waiting import PATIENCE_S

POOL = UUID("00000000-0000-4000-8000-0000000000f0")
TEMPLATE = TemplateImage(
    UUID("00000000-0000-4000-8000-0000000000f2"), "busybox", None, "TAR", None, 1 << 20, is_of_root_admin=True
)
ROOT = VolumeSpec(UUID("00000000-0000-4000-8000-0000000000a1"), "ROOT-1", 1 << 20, POOL, TEMPLATE.uuid)
DATA = VolumeSpec(UUID("00000000-0000-4000-8000-0000000000a2"), "DATA-1", 1 << 20, POOL)
NIC = NicSpec(
    UUID("00000000-0000-4000-8000-0000000000b1"),
    "02:00:00:00:00:01",
    "10.8.0.20",
    UUID("00000000-0000-4000-8000-0000000000f1"),
    None,
)
GUEST = GuestSpec(UUID("00000000-0000-4000-8000-0000000000c1"), "i-2-1-VM", 1, 500, 16, (ROOT, DATA), (NIC,))
ADDRESSES = tuple(
    HostAddress(UUID(int=0xD0 + n), f"member{n}", f"192.0.2.{10 + n}", "LXC", f"incus://member{n}") for n in (1, 2)
)


def life(driver: IncusDriver) -> Iterator[tuple[str, Any]]:
    """Its steps, each with what the driver says then."""
    first, second = ADDRESSES
    driver.ensure_running(first, GUEST, fence=1, timeout_s=PATIENCE_S)
    yield "started", list(driver.list_guests())
    driver.ensure_running(first, GUEST, fence=2, timeout_s=PATIENCE_S)
    yield "started again", driver.power_of(first, GUEST.uuid, fence=2, timeout_s=PATIENCE_S)
    larger = replace(GUEST, cpu_number=2, memory_mib=32)
    driver.ensure_scaled(first, larger, fence=3, timeout_s=PATIENCE_S)
    yield "scaled", list(driver.list_guests())
    driver.ensure_stopped(first, GUEST.uuid, forced=True, fence=4, timeout_s=PATIENCE_S)
    yield "stopped", (list(driver.list_guests()), sorted(driver.list_volumes()))
    driver.ensure_running(second, GUEST, fence=5, timeout_s=PATIENCE_S)
    yield "started elsewhere", list(driver.list_guests())
    driver.ensure_absent(None, GUEST.uuid, [ROOT.uuid, DATA.uuid], fence=6, timeout_s=PATIENCE_S)
    yield "removed", (list(driver.list_guests()), list(driver.list_volumes()))
