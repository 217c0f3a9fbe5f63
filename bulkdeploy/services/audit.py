"""The audit: rows against rows, and rows against what the hypervisors really have.

Safe on a live system: what a job works on is left out of the comparison with the hypervisors, whether the job
was there before or after the guests were listed; so is what the rows no longer say afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Engine

from bulkdeploy.drivers.driver import Guest, HypervisorDriver, PowerState
from bulkdeploy.store.audit import (
    ExpectedGuest,
    ExpectedVolume,
    Finding,
    check_invariants,
    expected_guests,
    expected_volumes,
    unsettled_vms,
)
from bulkdeploy.store.database.engine import read_only

GUESTS_PROMISE = "what runs on the hypervisors is what the rows say, on the host they say, once"
DEVICES_PROMISE = "running guests have the volumes and nics that the rows say, and no others"
VOLUMES_PROMISE = "what the pools hold is what the rows say, in the pool and of the size they say, or to grow to it"

RealVolume = tuple[UUID, UUID, int]
"""A volume's uuid, its pool's uuid and its size in bytes, as a driver lists it."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the rows say at one moment, and which VMs jobs work on then."""

    guests: Mapping[UUID, ExpectedGuest]
    volumes: Mapping[UUID, ExpectedVolume]
    unsettled: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between rows and hypervisors, by the uuid of VM or volume, in words; and what was seen.

    Args:
        guests, devices, volumes: breaches of the three promises, by uuid.
        compared: how many of each were compared, in this order.
        seen: the guests there are, by uuid.
        pools: the pools that have each volume.
    """

    guests: Mapping[UUID, str]
    devices: Mapping[UUID, str]
    volumes: Mapping[UUID, str]
    compared: tuple[int, int, int]
    seen: Mapping[UUID, Sequence[Guest]]
    pools: Mapping[UUID, Sequence[UUID]]

    def findings(self) -> list[Finding]:
        """As the audit shows it."""
        promises = (("guests", GUESTS_PROMISE), ("devices", DEVICES_PROMISE), ("pools", VOLUMES_PROMISE))
        breaches = (self.guests, self.devices, self.volumes)
        return [
            Finding(name, promise, compared, tuple(broken.values()))
            for (name, promise), compared, broken in zip(promises, self.compared, breaches, strict=True)
        ]


def audit(engine: Engine, drivers: Iterable[HypervisorDriver]) -> list[Finding]:
    """Check every invariant; an intact system has findings without breaches."""
    compared = compare(engine, drivers)
    return [*check_invariants(engine), *compared.findings()]


def compare(engine: Engine, drivers: Iterable[HypervisorDriver]) -> Comparison:
    """Rows against what the hypervisors have."""
    before = _expectation(engine)
    guests: dict[UUID, list[Guest]] = {}
    volumes: dict[UUID, list[RealVolume]] = {}
    for driver in drivers:
        for guest in driver.list_guests():
            guests.setdefault(guest.uuid, []).append(guest)
        for volume in driver.list_volumes():
            volumes.setdefault(volume[0], []).append(volume)
    after = _expectation(engine)
    stable = _stable_guests(before, after, guests)
    running = {
        uuid: found for uuid in stable if uuid in before.guests and (found := _running(guests.get(uuid, ())))
    }
    still = sorted(_stable_volumes(before, after, volumes))
    return Comparison(
        _breaches({uuid: _compare_guest(uuid, before.guests.get(uuid), guests.get(uuid, ())) for uuid in stable}),
        _breaches({uuid: _compare_devices(before.guests[uuid], guest) for uuid, (guest, *_) in running.items()}),
        _breaches({uuid: _compare_volume(uuid, before.volumes.get(uuid), volumes.get(uuid, ())) for uuid in still}),
        (len(stable), len(running), len(still)),
        guests,
        {uuid: [pool for _, pool, _ in found] for uuid, found in volumes.items()},
    )


def _breaches(compared: Mapping[UUID, str | None]) -> dict[UUID, str]:
    return {uuid: breach for uuid, breach in compared.items() if breach is not None}


def _expectation(engine: Engine) -> Expectation:
    """Jobs are read first: whatever one of them has ended meanwhile is left out all the same."""
    with read_only(engine) as connection:
        return Expectation(
            unsettled=frozenset(unsettled_vms(connection)),
            guests={guest.uuid: guest for guest in expected_guests(connection)},
            volumes={volume.uuid: volume for volume in expected_volumes(connection)},
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
    """What a running guest has too much or lacks, or None; a hypervisor need not know nics by their uuids."""
    reported = [("volume", expected.volume_uuids, guest.volume_uuids)]
    if guest.nic_uuids is not None:
        reported.append(("nic", expected.nic_uuids, guest.nic_uuids))
    wrong = [f"has {noun} {uuid} beyond its rows" for noun, rows, real in reported for uuid in sorted(real - rows)]
    wrong += [f"lacks {noun} {uuid}" for noun, rows, real in reported for uuid in sorted(rows - real)]
    return f"the guest of VM {guest.uuid} " + ", ".join(wrong) if wrong else None


def _compare_guest(uuid: UUID, expected: ExpectedGuest | None, real: Sequence[Guest]) -> str | None:
    """What is wrong with one VM, or None."""
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
    """What is wrong with one volume, or None."""
    if expected is None:
        return f"volume {uuid} is in pool {real[0][1]}, and no row owns it" if real else None
    found = [(pool, size) for _, pool, size in real]
    if not expected.is_ready and not found:
        return None
    least = expected.size_bytes if expected.is_in_use else 1
    if [(pool, least <= size <= expected.size_bytes) for pool, size in found] != [(expected.pool_uuid, True)]:
        return f"volume {uuid} is in pool {expected.pool_uuid} by its row, and really {found or 'nowhere'}"
    return None
