"""The audit: compares rows with each other and with the state of the hypervisors (one file: one comparison, whole).

The first pass compares all objects, part by part, so that memory grows only by an id per object. Objects that
differ are compared a second time. This is safe on a live system: VMs with an unfinished job before or after the
second query of the guests are omitted, and so are differences that the rows no longer show afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar
from uuid import UUID

from sqlalchemy import Engine

from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.store.auditing.audit import (
    ExpectedGuest,
    ExpectedVolume,
    Finding,
    check_invariants,
    expected_guests,
    expected_volumes,
    ready_volumes,
    running_vms,
    unsettled_vms,
)
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.virtual_machines.unmanaged_instances import released_guests

GUESTS_PROMISE = (
    "each Running VM has one guest, on the host and with the sizes in its row, and there are no other guests"
)
DEVICES_PROMISE = "running guests have exactly the volumes and NICs in their rows"
VOLUMES_PROMISE = (
    "pools contain exactly the volumes in the rows, with the size in the row or a smaller size before it grows"
)

RealVolume = tuple[UUID, UUID, int]
"""A volume's uuid, its pool's uuid and its size in bytes, as a driver lists it."""

AT_ONCE = 10_000
"""Guests, or volumes, that are in memory at the same time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected guests and volumes of the rows at one moment, and the VMs with unfinished jobs then."""

    guests: Mapping[UUID, ExpectedGuest]
    volumes: Mapping[UUID, ExpectedVolume]
    unsettled: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between rows and hypervisors as texts, by the uuid of the VM or volume.

    Args:
        guests, devices, volumes: the violations of the three promises about guests, devices and volumes.
        compared: the number of compared guests, of running guests, and of volumes.
        seen: the guests on hypervisors with the uuids that differed in the first pass.
        pools: the pools that contain the volumes that differed in the first pass.
        unknown_guests, unknown_volumes: objects that cannot be compared while a host or a pool does not answer.
    """

    guests: Mapping[UUID, str]
    devices: Mapping[UUID, str]
    volumes: Mapping[UUID, str]
    compared: tuple[int, int, int]
    seen: Mapping[UUID, Sequence[Guest]]
    pools: Mapping[UUID, Sequence[UUID]]
    unknown_guests: Mapping[UUID, str] = field(default_factory=dict)
    unknown_volumes: Mapping[UUID, str] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Return the differences as findings of the audit, one for each promise."""
        promises = (("guests", GUESTS_PROMISE), ("devices", DEVICES_PROMISE), ("pools", VOLUMES_PROMISE))
        breaches = (self.guests, self.devices, self.volumes)
        unknown: tuple[Mapping[UUID, str], ...] = (self.unknown_guests, {}, self.unknown_volumes)
        return [
            Finding(name, promise, compared, tuple(broken.values()), tuple(unseen.values()))
            for (name, promise), compared, broken, unseen in zip(
                promises, self.compared, breaches, unknown, strict=True
            )
        ]


def audit(engine: Engine, drivers: Iterable[HypervisorDriver]) -> list[Finding]:
    """Check every invariant, and return one finding for each. A finding without breaches means that it holds."""
    compared = compare(engine, drivers)
    return [*check_invariants(engine), *compared.findings()]


def compare(engine: Engine, drivers: Iterable[HypervisorDriver]) -> Comparison:
    """Compare the rows of VMs and volumes with the guests and volumes that the hypervisors report.

    Objects that differ are checked a second time, so that a change between the two queries is not reported.
    """
    every = list(drivers)
    with read_only(engine) as connection:
        unsettled, released = unsettled_vms(connection), released_guests(connection)
    guests = _look_at_guests(engine, every, frozenset(unsettled), released)
    volumes = _look_at_volumes(engine, every, frozenset(unsettled), guests.released_volumes)
    compared = (guests.compared, guests.running, volumes.compared)
    if not guests.doubtful and not volumes.doubtful:
        return Comparison({}, {}, {}, compared, {}, {})
    return _look_again(engine, every, guests.doubtful, volumes.doubtful, compared)


@dataclass(slots=True)
class _Look:
    """The result of the first pass over the guests: their numbers, and the guests to check again.

    ``released_volumes`` are the volumes of guests that run without rows on purpose (unmanageVirtualMachine).
    """

    doubtful: set[UUID]
    compared: int = 0
    running: int = 0
    released_volumes: frozenset[UUID] = frozenset()


def _look_at_guests(
    engine: Engine, drivers: Sequence[HypervisorDriver], unsettled: frozenset[UUID], released: set[UUID]
) -> _Look:
    look, seen = _Look(set()), set[UUID]()
    unseen: dict[UUID, str] = {}  # objects that seem to be missing for this reason are checked again
    for part in _parts(guest for driver in drivers for guest in driver.list_seen_guests(unseen)):
        with read_only(engine) as connection:
            rows = {row.uuid: row for row in expected_guests(connection, [guest.uuid for guest in part])}
        for guest in part:
            row = rows.get(guest.uuid)
            if row is None and guest.uuid in released:
                look.released_volumes |= guest.volume_uuids
            elif guest.uuid not in unsettled:
                wrong = _compare_guest(guest.uuid, row, [guest]) or (row and _compare_devices(row, guest))
                if wrong or guest.uuid in seen:
                    look.doubtful.add(guest.uuid)
                look.running += row is not None
                seen.add(guest.uuid)
    with read_only(engine) as connection:
        missing = {uuid for uuid in running_vms(connection) if uuid not in seen} - unsettled
    look.doubtful |= missing
    look.compared = len(seen) + len(missing)
    return look


def _look_at_volumes(
    engine: Engine, drivers: Sequence[HypervisorDriver], unsettled: frozenset[UUID], released: frozenset[UUID]
) -> _Look:
    look, seen = _Look(set()), set[UUID]()
    unseen: dict[UUID, str] = {}
    for part in _parts(volume for driver in drivers for volume in driver.list_seen_volumes(unseen)):
        with read_only(engine) as connection:
            rows = {row.uuid: row for row in expected_volumes(connection, [volume[0] for volume in part])}
        for volume in part:
            row = rows.get(volume[0])
            if volume[0] in released if row is None else row.vm_uuid in unsettled:
                continue
            if _compare_volume(volume[0], row, [volume]) or volume[0] in seen:
                look.doubtful.add(volume[0])
            seen.add(volume[0])
    with read_only(engine) as connection:
        missing = {
            uuid for uuid, vm_uuid in ready_volumes(connection) if uuid not in seen and vm_uuid not in unsettled
        }
    look.doubtful |= missing
    look.compared = len(seen) + len(missing)
    return look


def _look_again(
    engine: Engine,
    drivers: Sequence[HypervisorDriver],
    guest_uuids: set[UUID],
    volume_uuids: set[UUID],
    compared: tuple[int, int, int],
) -> Comparison:
    """Compare these guests and volumes a second time, and return the remaining differences.

    They may have been changing during the first pass.
    """
    before = _expectation(engine, guest_uuids, volume_uuids)
    guests: dict[UUID, list[Guest]] = {}
    volumes: dict[UUID, list[RealVolume]] = {}
    silent: dict[UUID, str] = {}
    silent_pools: dict[UUID, str] = {}
    for driver in drivers:
        for guest in driver.list_seen_guests(silent):
            if guest.uuid in guest_uuids:
                guests.setdefault(guest.uuid, []).append(guest)
        for volume in driver.list_seen_volumes(silent_pools):
            if volume[0] in volume_uuids:
                volumes.setdefault(volume[0], []).append(volume)
    after = _expectation(engine, guest_uuids, volume_uuids)
    stable = _stable_guests(before, after, guests)
    unknown = _unknown_guests(before, stable, silent)
    stable = [uuid for uuid in stable if uuid not in unknown]
    running = {
        uuid: found for uuid in stable if uuid in before.guests and (found := _running(guests.get(uuid, ())))
    }
    still = sorted(_stable_volumes(before, after, volumes))
    unknown_volumes = _unknown_volumes(before, still, volumes, silent_pools)
    still = [uuid for uuid in still if uuid not in unknown_volumes]
    return Comparison(
        _breaches({uuid: _compare_guest(uuid, before.guests.get(uuid), guests.get(uuid, ())) for uuid in stable}),
        _breaches({uuid: _compare_devices(before.guests[uuid], guest) for uuid, (guest, *_) in running.items()}),
        _breaches({uuid: _compare_volume(uuid, before.volumes.get(uuid), volumes.get(uuid, ())) for uuid in still}),
        compared,
        guests,
        {uuid: [pool for _, pool, _ in found] for uuid, found in volumes.items()},
        unknown,
        unknown_volumes,
    )


def _unknown_guests(expected: Expectation, uuids: Sequence[UUID], unseen: Mapping[UUID, str]) -> dict[UUID, str]:
    """Return the VMs whose guests cannot be read, whether they run or not, with the reason for each."""
    found = {}
    for uuid in uuids:
        row = expected.guests.get(uuid)
        reason = None if row is None else unseen.get(uuid) or unseen.get(row.host_uuid)
        if row is not None and reason is not None:
            found[uuid] = (
                f"VM {uuid} is Running on host {row.host_uuid} by its row, and its guest cannot be read: {reason}"
            )
    return found


def _unknown_volumes(
    expected: Expectation,
    uuids: Sequence[UUID],
    real: Mapping[UUID, Sequence[RealVolume]],
    unseen: Mapping[UUID, str],
) -> dict[UUID, str]:
    """Return the volumes that were not found and may be on a host that does not answer, each with the reason."""
    found = {}
    for uuid in uuids:
        row = expected.volumes.get(uuid)
        reason = None if row is None or row.pool_uuid is None else unseen.get(row.pool_uuid)
        if row is not None and reason is not None and not real.get(uuid):
            found[uuid] = (
                f"volume {uuid} is in pool {row.pool_uuid} by its row, and the pool cannot be read: {reason}"
            )
    return found


def _parts(items: Iterator[T]) -> Iterator[list[T]]:
    while part := list(islice(items, AT_ONCE)):
        yield part


def _breaches(compared: Mapping[UUID, str | None]) -> dict[UUID, str]:
    return {uuid: breach for uuid, breach in compared.items() if breach is not None}


def _expectation(engine: Engine, guest_uuids: set[UUID], volume_uuids: set[UUID]) -> Expectation:
    """Return the expected guests and volumes for these ids.

    Jobs are read first, so that a VM whose job ends in the meantime is omitted.
    """
    with read_only(engine) as connection:
        return Expectation(
            unsettled=frozenset(unsettled_vms(connection)) | released_guests(connection),
            guests={guest.uuid: guest for guest in expected_guests(connection, guest_uuids)},
            volumes={volume.uuid: volume for volume in expected_volumes(connection, volume_uuids)},
        )


def _stable_guests(before: Expectation, after: Expectation, real: Mapping[UUID, Sequence[Guest]]) -> list[UUID]:
    unsettled = before.unsettled | after.unsettled
    return sorted(
        uuid
        for uuid in before.guests.keys() | after.guests.keys() | real.keys()
        if uuid not in unsettled and before.guests.get(uuid) == after.guests.get(uuid)
    )


def _running(real: Sequence[Guest]) -> list[Guest]:
    return [guest for guest in real if guest.power is PowerState.RUNNING]


def _compare_devices(expected: ExpectedGuest, guest: Guest) -> str | None:
    """Return a text about surplus and missing devices of a running guest, or None if there are none.

    NICs are compared only if the hypervisor reports their uuids.
    """
    reported = [("volume", expected.volume_uuids, guest.volume_uuids)]
    if guest.nic_uuids is not None:
        reported.append(("nic", expected.nic_uuids, guest.nic_uuids))
    wrong = [f"has {noun} {uuid} beyond its rows" for noun, rows, real in reported for uuid in sorted(real - rows)]
    wrong += [f"lacks {noun} {uuid}" for noun, rows, real in reported for uuid in sorted(rows - real)]
    return f"the guest of VM {guest.uuid} " + ", ".join(wrong) if wrong else None


def _compare_guest(uuid: UUID, expected: ExpectedGuest | None, real: Sequence[Guest]) -> str | None:
    """Return a description of the difference between a VM and its guest, or None if they are equal."""
    running = _running(real)
    if expected is None:
        if real:
            hosts = ", ".join(str(guest.host_uuid) for guest in real)
            return f"guest {uuid} is on host {hosts}, and no Running VM owns it"
        return None
    if len(running) != 1:
        return f"VM {uuid} is Running by its row and runs {len(running)} times on the hypervisors"
    guest = running[0]
    if guest.host_uuid != expected.host_uuid:
        return f"VM {uuid} is on host {expected.host_uuid} by its row and runs on host {guest.host_uuid}"
    sizes = (guest.cpu_number, guest.cpu_mhz, guest.memory_mib)
    if sizes != (expected.cpu_number, expected.cpu_mhz, expected.memory_mib):
        return f"VM {uuid} has other sizes on the hypervisor than in its row: {sizes}"
    return None


def _stable_volumes(
    before: Expectation, after: Expectation, real: Mapping[UUID, Sequence[RealVolume]]
) -> Iterator[UUID]:
    unsettled = before.unsettled | after.unsettled
    for uuid in before.volumes.keys() | after.volumes.keys() | real.keys():
        row = before.volumes.get(uuid)
        if row == after.volumes.get(uuid) and (row is None or row.vm_uuid not in unsettled):
            yield uuid


def _compare_volume(uuid: UUID, expected: ExpectedVolume | None, real: Sequence[RealVolume]) -> str | None:
    """Return a description of the difference between a volume's row and the hypervisor, or None."""
    if expected is None:
        return f"volume {uuid} is in pool {real[0][1]}, and no row owns it" if real else None
    found = [(pool, size) for _, pool, size in real]
    if not expected.is_ready and not found:
        return None
    least = expected.size_bytes if expected.is_in_use else 1
    if [(pool, least <= size <= expected.size_bytes) for pool, size in found] != [(expected.pool_uuid, True)]:
        return f"volume {uuid} is in pool {expected.pool_uuid} by its row, and really {found or 'nowhere'}"
    return None
