"""The objects that the contract suites use: a driver on a hypervisor, specifications of guests, and a caller."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar
from uuid import UUID, uuid4

import pytest

from bulkdeploy.drivers.abilities.ability import Ability, names_of
from bulkdeploy.drivers.abilities.devices import DeviceChanges
from bulkdeploy.drivers.abilities.isos import IsoDrives
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import VolumeResizing
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.abilities.snapshots import Snapshots, SnapshotSpec
from bulkdeploy.drivers.abilities.volume_templates import VolumeTemplates
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.guests import Guest, GuestSpec, NicSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress

POOL = UUID("00000000-0000-4000-8000-0000000000f0")
NETWORK = UUID("00000000-0000-4000-8000-0000000000f1")
TEMPLATE = UUID("00000000-0000-4000-8000-0000000000f2")
ISO = UUID("00000000-0000-4000-8000-0000000000f3")
GIB = 1024**3
PATIENCE_S = 120.0
THREADS = 16

_numbers = count(1)


@dataclass(frozen=True)
class Subjects:
    """The pool, network, template and ISO that guests use, for hypervisors on which these must exist.

    ``volumes`` is the number of volumes of a guest including its root disk. It is 1 for drivers without
    DataVolumes.
    """

    pool_uuid: UUID = POOL
    network_uuid: UUID = NETWORK
    template_uuid: UUID = TEMPLATE
    iso_uuid: UUID = ISO
    volume_bytes: int = GIB
    cpu_mhz: int = 500
    memory_mib: int = 256
    volumes: int = 2

    def new_volume(self) -> VolumeSpec:
        """Return the specification of a new volume."""
        return VolumeSpec(uuid4(), "ROOT-1", self.volume_bytes, self.pool_uuid, self.template_uuid)

    def new_nic(self) -> NicSpec:
        """Return the specification of a new NIC with its own MAC address."""
        number = next(_numbers)
        mac_address = f"02:00:00:00:{number // 256 % 256:02x}:{number % 256:02x}"
        return NicSpec(uuid4(), mac_address, None, self.network_uuid, "100")

    def new_guest(
        self,
        *,
        cpu_number: int = 1,
        cpu_mhz: int | None = None,
        memory_mib: int | None = None,
        volumes: int | None = None,
    ) -> GuestSpec:
        """Return the specification of a new guest that may be scaled while it runs."""
        disks = tuple(self.new_volume() for _ in range(self.volumes if volumes is None else volumes))
        return GuestSpec(
            uuid4(),
            f"i-2-{next(_numbers)}-VM",
            cpu_number,
            self.cpu_mhz if cpu_mhz is None else cpu_mhz,
            self.memory_mib if memory_mib is None else memory_mib,
            disks,
            (self.new_nic(),),
            is_dynamically_scalable=True,
        )


@dataclass(frozen=True)
class Rig:
    """A driver on a hypervisor without guests.

    Attributes:
        driver: the driver under test.
        hosts: at least two hosts, each with capacity for 12 guests.
        fail_next: makes the next call fail in the given step. The effects of earlier steps remain.
        start_steps: the steps of a start, in their order, as ``fail_next`` and errors name them.
        subjects: the pool, network, template and ISO of guests.
        release: records that a guest is on no host any more, as the service does when its host is declared off.
        patience_s: the time limit of a call of the driver, in seconds.
    """

    driver: HypervisorDriver
    hosts: tuple[HostAddress, ...]
    fail_next: Callable[[str], None]
    start_steps: Sequence[str] = ("volume", "network", "boot")
    subjects: Subjects = field(default_factory=Subjects)
    release: Callable[[UUID], None] = field(default=lambda _: None)
    patience_s: float = PATIENCE_S

    def new_guest(self) -> GuestSpec:
        """Return the specification of a new guest."""
        return self.subjects.new_guest()

    def volumes(self) -> set[UUID]:
        """Return the uuids of all volumes that exist."""
        return {volume[0] for volume in self.driver.list_volumes()}


def volume_uuids(guest: GuestSpec) -> list[UUID]:
    """Return the uuids of the guest's volumes."""
    return [volume.uuid for volume in guest.volumes]


def guests_of(driver: HypervisorDriver) -> dict[UUID, Guest]:
    """Return all guests that the driver lists, by uuid. The test fails if a guest is listed twice."""
    listed = list(driver.list_guests())
    by_uuid = {guest.uuid: guest for guest in listed}
    assert len(by_uuid) == len(listed)
    return by_uuid


@dataclass(frozen=True)
class Caller:
    """A caller of a driver with a fixed fence and timeout, which most tests do not need to choose."""

    driver: HypervisorDriver
    fence: int = 1
    timeout_s: float = PATIENCE_S

    def run(self, host: HostAddress, guest: GuestSpec) -> None:
        """Call ``ensure_running``."""
        self.driver.ensure_running(host, guest, fence=self.fence, timeout_s=self.timeout_s)

    def stop(self, host: HostAddress, guest: GuestSpec, *, forced: bool = False) -> None:
        """Call ``ensure_stopped``."""
        self.driver.ensure_stopped(host, guest.uuid, forced=forced, fence=self.fence, timeout_s=self.timeout_s)

    def look(self, host: HostAddress, guest: GuestSpec) -> PowerState | None:
        """Call ``power_of``, and return its result."""
        return self.driver.power_of(host, guest.uuid, fence=self.fence, timeout_s=self.timeout_s)

    def remove(self, host: HostAddress | None, guest: GuestSpec) -> None:
        """Call ``ensure_absent`` with all of the guest's volumes."""
        self.driver.ensure_absent(host, guest.uuid, volume_uuids(guest), fence=self.fence, timeout_s=self.timeout_s)

    def remove_volume(self, pool_uuid: UUID, volume_uuid: UUID) -> None:
        """Call ``ensure_volume_absent``."""
        self.driver.ensure_volume_absent(pool_uuid, volume_uuid, timeout_s=self.timeout_s)

    def scale(self, host: HostAddress, guest: GuestSpec) -> None:
        """Call ``ensure_scaled``."""
        LiveScaling.of(self.driver).ensure_scaled(host, guest, fence=self.fence, timeout_s=self.timeout_s)

    def devices(self, host: HostAddress, guest: GuestSpec) -> None:
        """Call ``ensure_devices``."""
        DeviceChanges.of(self.driver).ensure_devices(host, guest, fence=self.fence, timeout_s=self.timeout_s)

    def drive(self, host: HostAddress, guest: GuestSpec) -> None:
        """Call ``ensure_drive``."""
        IsoDrives.of(self.driver).ensure_drive(host, guest, fence=self.fence, timeout_s=self.timeout_s)

    def resize(self, host: HostAddress | None, guest: GuestSpec, volume: VolumeSpec) -> None:
        """Call ``ensure_resized``."""
        VolumeResizing.of(self.driver).ensure_resized(
            host, guest.uuid, volume, fence=self.fence, timeout_s=self.timeout_s
        )

    def size_of(self, guest: GuestSpec, volume: VolumeSpec) -> int | None:
        """Call ``size_of``, and return its result."""
        return VolumeResizing.of(self.driver).size_of(
            guest.uuid, volume, fence=self.fence, timeout_s=self.timeout_s
        )

    def make_template(self, guest: GuestSpec, volume: VolumeSpec, template_uuid: UUID) -> None:
        """Call ``ensure_template_made``."""
        VolumeTemplates.of(self.driver).ensure_template_made(
            guest, volume, template_uuid, fence=self.fence, timeout_s=self.timeout_s
        )

    def ensure_iso(self, host: HostAddress, guest: GuestSpec) -> None:
        """Call ``ensure_template`` for the ISO in a guest's drive."""
        assert guest.iso_uuid is not None
        self.driver.ensure_template(host, guest.volumes[0].pool_uuid, guest.iso_uuid, timeout_s=self.timeout_s)

    def snapshot(self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec) -> None:
        """Call ``ensure_snapshot``."""
        Snapshots.of(self.driver).ensure_snapshot(host, guest, snapshot, fence=self.fence, timeout_s=self.timeout_s)

    def revert(self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec) -> None:
        """Call ``ensure_reverted``."""
        Snapshots.of(self.driver).ensure_reverted(host, guest, snapshot, fence=self.fence, timeout_s=self.timeout_s)

    def remove_snapshot(self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec) -> None:
        """Call ``ensure_snapshot_absent``."""
        Snapshots.of(self.driver).ensure_snapshot_absent(
            host, guest, snapshot, fence=self.fence, timeout_s=self.timeout_s
        )

    def migrate(self, source: HostAddress, destination: HostAddress, guest: GuestSpec) -> None:
        """Call ``ensure_migrated``."""
        LiveMigration.of(self.driver).ensure_migrated(
            source, destination, guest, fence=self.fence, timeout_s=self.timeout_s
        )


class AbilityContract:
    """The base class of suites for abilities. ``DriverContract`` requires the suites of a driver's abilities."""

    suites: ClassVar[dict[type, type[Ability]]] = {}

    def __init_subclass__(cls, of: type[Ability] | None = None) -> None:
        if of is not None:
            AbilityContract.suites[cls] = of
        super().__init_subclass__()


def require(rig: Rig, *abilities: type[Ability]) -> None:
    """Skip the test if the driver lacks one of these abilities."""
    missing = set(abilities) - rig.driver.abilities
    if missing:
        pytest.skip(f"the driver has no {', '.join(names_of(frozenset(missing)))}")
