"""Hosts and guests to ask drivers for."""

from dataclasses import dataclass
from itertools import count
from uuid import UUID, uuid4

from bulkdeploy.drivers.driver import (
    Guest,
    GuestSpec,
    HostAddress,
    HypervisorDriver,
    NicSpec,
    PowerState,
    VolumeSpec,
)
from bulkdeploy.drivers.simulator_inventory import SimulatedHost

POOL = UUID("00000000-0000-4000-8000-0000000000f0")
NETWORK = UUID("00000000-0000-4000-8000-0000000000f1")
TEMPLATE = UUID("00000000-0000-4000-8000-0000000000f2")
GIB = 1024**3
PATIENCE_S = 30.0

_numbers = count(1)


def new_volume(size_bytes: int = GIB) -> VolumeSpec:
    """A volume that does not exist yet."""
    return VolumeSpec(uuid4(), "ROOT-1", size_bytes, POOL, TEMPLATE)


def new_nic() -> NicSpec:
    """A nic that no guest has."""
    number = next(_numbers)
    return NicSpec(uuid4(), f"02:00:00:00:{number // 256 % 256:02x}:{number % 256:02x}", None, NETWORK, "100")


def new_guest(*, cpu_number: int = 1, cpu_mhz: int = 500, memory_mib: int = 256, volumes: int = 2) -> GuestSpec:
    """A guest that does not exist yet."""
    number = next(_numbers)
    disks = tuple(new_volume() for _ in range(volumes))
    return GuestSpec(uuid4(), f"i-2-{number}-VM", cpu_number, cpu_mhz, memory_mib, disks, (new_nic(),))


def new_host(name: str, *, guests: int = 100, cpu_mhz: int = 100_000, memory_mib: int = 100_000) -> SimulatedHost:
    """A host with these limits."""
    return SimulatedHost(uuid4(), name, 16, 2000, 65536, cpu_mhz, memory_mib, guests)


def address(host: SimulatedHost) -> HostAddress:
    """How a caller names the host."""
    return HostAddress(host.uuid, host.name, "192.0.2.1", "Simulator")


def volume_uuids(guest: GuestSpec) -> list[UUID]:
    """The guest's volumes."""
    return [volume.uuid for volume in guest.volumes]


def guests_of(driver: HypervisorDriver) -> dict[UUID, Guest]:
    """Every guest there is, each once."""
    listed = list(driver.list_guests())
    by_uuid = {guest.uuid: guest for guest in listed}
    assert len(by_uuid) == len(listed)
    return by_uuid


@dataclass(frozen=True)
class Caller:
    """Calls a driver with a fence and patience that most tests do not care about."""

    driver: HypervisorDriver
    fence: int = 1
    timeout_s: float = PATIENCE_S

    def run(self, host: HostAddress, guest: GuestSpec) -> None:
        """``ensure_running``."""
        self.driver.ensure_running(host, guest, fence=self.fence, timeout_s=self.timeout_s)

    def stop(self, host: HostAddress, guest: GuestSpec, *, forced: bool = False) -> None:
        """``ensure_stopped``."""
        self.driver.ensure_stopped(host, guest.uuid, forced=forced, fence=self.fence, timeout_s=self.timeout_s)

    def look(self, host: HostAddress, guest: GuestSpec) -> PowerState | None:
        """``power_of``."""
        return self.driver.power_of(host, guest.uuid, fence=self.fence, timeout_s=self.timeout_s)

    def remove(self, host: HostAddress | None, guest: GuestSpec) -> None:
        """``ensure_absent``, with all of the guest's volumes."""
        self.driver.ensure_absent(host, guest.uuid, volume_uuids(guest), fence=self.fence, timeout_s=self.timeout_s)

    def remove_volume(self, pool_uuid: UUID, volume_uuid: UUID) -> None:
        """``ensure_volume_absent``."""
        self.driver.ensure_volume_absent(pool_uuid, volume_uuid, timeout_s=self.timeout_s)

    def scale(self, host: HostAddress, guest: GuestSpec) -> None:
        """``ensure_scaled``."""
        self.driver.ensure_scaled(host, guest, fence=self.fence, timeout_s=self.timeout_s)

    def devices(self, host: HostAddress, guest: GuestSpec) -> None:
        """``ensure_devices``."""
        self.driver.ensure_devices(host, guest, fence=self.fence, timeout_s=self.timeout_s)

    def migrate(self, source: HostAddress, destination: HostAddress, guest: GuestSpec) -> None:
        """``ensure_migrated``."""
        self.driver.ensure_migrated(source, destination, guest, fence=self.fence, timeout_s=self.timeout_s)
