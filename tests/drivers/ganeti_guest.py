"""One guest and its life on a Ganeti cluster: what is recorded of a live cluster, and replayed."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.batches import BatchDriver, StartCall
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.guests import GuestSpec, NicSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from tests.support.runs.waiting import PATIENCE_S

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
THREE = (*ADDRESSES, HostAddress(UUID(int=0xD3), "node3", "192.0.2.13", "KVM", "ganeti://node3"))
PAIR = tuple(
    replace(
        GUEST,
        uuid=UUID(int=GUEST.uuid.int + n),
        name=f"i-2-{n}-VM",
        volumes=(replace(VOLUME, uuid=UUID(int=VOLUME.uuid.int + n)),),
        nics=(replace(NIC, uuid=UUID(int=NIC.uuid.int + n), mac_address=f"02:00:00:00:00:1{n}"),),
    )
    for n in (1, 2)
)
"""Two guests that start together, one on each node."""


def life(driver: GanetiDriver) -> Iterator[tuple[str, Any]]:
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


def start_together(driver: BatchDriver) -> Iterator[tuple[str, Any]]:
    """Two that are made by one request; then what the driver says."""
    calls = [StartCall(host, guest, 1) for host, guest in zip(ADDRESSES, PAIR, strict=True)]
    for answer in driver.begin(calls, timeout_s=PATIENCE_S):
        answer()
    yield "started together", sorted(driver.list_guests(), key=lambda guest: guest.uuid)


def mirrored_life(driver: GanetiDriver) -> Iterator[tuple[str, Any]]:
    """Two that are made with secondaries; one moves to each other node, stops, and starts on its secondary."""
    yield from start_together(driver)
    guest, homes = PAIR[0], {host.name: host for host in THREE}
    at, fence = THREE[0], 2
    for name in ("node2", "node3", "node1"):
        driver.ensure_migrated(at, homes[name], guest, fence=fence, timeout_s=PATIENCE_S)
        at, fence = homes[name], fence + 1
        yield f"migrated to {name}", _where(driver, guest)
    driver.ensure_stopped(at, guest.uuid, forced=True, fence=fence, timeout_s=PATIENCE_S)
    yield "stopped", list(_where(driver, guest))
    driver.ensure_running(homes["node3"], guest, fence=fence + 1, timeout_s=PATIENCE_S)
    yield "started on another node", _where(driver, guest)
    yield "memory", driver.memory_of_hosts(THREE, timeout_s=PATIENCE_S)
    for one in PAIR:
        driver.ensure_absent(None, one.uuid, [one.volumes[0].uuid], fence=fence + 2, timeout_s=PATIENCE_S)
    yield "removed", list(driver.list_volumes())


def _where(driver: BatchDriver, guest: GuestSpec) -> list[tuple[UUID, Any]]:
    return [(one.host_uuid, one.power) for one in driver.list_guests() if one.uuid == guest.uuid]
