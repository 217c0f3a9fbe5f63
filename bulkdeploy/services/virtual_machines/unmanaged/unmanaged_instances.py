"""The search for guests and volumes without rows, and their removal. ``adoption`` imports guests as VMs.

For example, guests created after a backup have no rows after the backup is restored.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.drivers.abilities.details import GuestDetails
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.parallel_calls import HOSTS_AT_ONCE
from bulkdeploy.drivers.guests import Guest
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.drivers.unmanaged_guests import GuestWithoutRow, addresses_of, guests_without_rows
from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.store.hypervisors import directory, guest_fences
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.virtual_machines import unmanaged_instances as store

RealVolume = tuple[UUID, UUID, int]
"""A volume's uuid, its pool's uuid and its size in bytes, as a driver lists it."""

LAST_FENCE = 1 << 62
"""Higher than any job's: of a guest that is being removed."""


@dataclass(frozen=True, slots=True)
class UnmanagedGuest:
    """A guest without a row, listed once for each host on which it exists.

    ``host`` is the row of the host (``store.hosts_of``), or None if the host is unknown. ``details`` is None if the
    hypervisor does not report details. ``volumes`` are the guest's volumes that exist. ``copies`` is the number of
    hosts that have the guest. ``is_released`` is true if unmanageVirtualMachine deleted the guest's row.
    """

    guest: Guest
    host: Row[Any] | None
    details: GuestDetails | None
    volumes: tuple[RealVolume, ...]
    copies: int
    is_released: bool = False

    @property
    def name(self) -> str:
        """The guest's name, or its id if the hypervisor does not report a name."""
        return str(self.guest.uuid) if self.details is None else self.details.name


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Guests and volumes that exist on hypervisors but have no row in the database.

    ``began`` is the time at which the search began.
    """

    guests: Sequence[UnmanagedGuest]
    volumes: Sequence[RealVolume]
    began: datetime


@dataclass(frozen=True, slots=True)
class Removal:
    """The guests to remove, and the volumes to remove with the hypervisors of their pools (None: unreachable)."""

    guests: Sequence[UnmanagedGuest]
    volumes: Sequence[tuple[RealVolume, str | None]]

    @property
    def uuids(self) -> list[UUID]:
        """The ids of the guests, followed by the ids of the volumes."""
        return [one.guest.uuid for one in self.guests] + [volume[0] for volume, _ in self.volumes]


def find_unmanaged(
    reading: Callable[[], AbstractContextManager[Connection]], drivers: Iterable[HypervisorDriver]
) -> Unmanaged:
    """Return the guests and volumes of hypervisors that have no row, ordered by name. Safe on a live system.

    Args:
        reading: opens a connection for reading. It is called before and after the hypervisors are queried, which
            may take minutes.
        drivers: the drivers of all hypervisors.

    Raises:
        DriverError: a hypervisor cannot be queried.
    """
    with reading() as connection:
        began, volumes = store.read_moment(connection), store.known_volumes(connection)

    def unknown(uuids: Sequence[UUID]) -> set[UUID]:
        with reading() as connection:
            return store.unknown_guests(connection, uuids, began)

    guests: list[GuestWithoutRow] = []
    there: dict[UUID, RealVolume] = {}
    for driver in drivers:
        guests += guests_without_rows(driver, unknown)
        there |= {volume[0]: volume for volume in driver.list_volumes() if volume[0] not in volumes}
    with reading() as connection:
        # volumes that were created while drivers listed volumes are known now
        volumes = store.known_volumes(connection)
        hosts = store.hosts_of(connection, {guest.host_uuid for guest, _ in guests})
        released = store.released_guests(connection)
    copies = Counter(guest.uuid for guest, _ in guests)
    found = [
        UnmanagedGuest(
            guest,
            hosts.get(guest.host_uuid),
            details,
            tuple(there[uuid] for uuid in sorted(guest.volume_uuids) if uuid in there),
            copies[guest.uuid],
            guest.uuid in released,
        )
        for guest, details in guests
    ]
    held = {volume for guest, _ in guests for volume in guest.volume_uuids}
    loose = [there[uuid] for uuid in sorted(there) if uuid not in held and uuid not in volumes]
    return Unmanaged(sorted(found, key=lambda one: (one.name, one.guest.uuid)), loose, began)


def note_unmanaged(connection: Connection, found: Unmanaged) -> None:
    """Reserve the addresses of unmanaged guests, so that no new VM gets them while the guests exist."""
    guests = [(one.guest, one.details) for one in found.guests]
    uuids = {guest.uuid for guest, _ in guests}
    store.record_unmanaged(connection, uuids, addresses_of(guests), began=found.began, was_complete=True)


def begin_removal(connection: Connection, found: Unmanaged) -> Removal:
    """Block unmanaged guests from being imported, and from being created again by delayed driver calls.

    Guests and volumes that have rows now are left out. This must be committed before ``remove``, whose driver calls
    are slow. It can be repeated safely.
    """
    take_lock(connection, Lock.UNMANAGED)
    known = store.known_volumes(connection)
    unknown = store.unknown_guests(connection, [one.guest.uuid for one in found.guests])
    guests = [
        replace(one, volumes=tuple(volume for volume in one.volumes if volume[0] not in known))
        for one in found.guests
        if one.guest.uuid in unknown
    ]
    ending = {one.guest.uuid for one in guests if one.host is not None}
    guest_fences.raise_fences(connection, ending, LAST_FENCE)
    pools = {row.uuid: row.hypervisor for row in directory.pools(connection)}
    return Removal(guests, [(volume, pools.get(volume[1])) for volume in found.volumes if volume[0] not in known])


def remove(drivers: Drivers, removal: Removal, *, timeout_s: float) -> dict[UUID, str]:
    """Delete guests and volumes on their hypervisors with all their data. This can be repeated safely.

    Returns:
        The reasons why guests and volumes could not be removed, by their id.
    """
    works = [partial(_remove_guest, drivers, one, timeout_s) for one in removal.guests]
    works += [partial(_remove_volume, drivers, *one, timeout_s) for one in removal.volumes]
    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        answers = list(threads.map(lambda work: work(), works))
    return {uuid: why for uuid, why in zip(removal.uuids, answers, strict=True) if why is not None}


def end_removal(connection: Connection, removal: Removal, failed: Collection[UUID]) -> None:
    """Release the addresses of guests that were removed."""
    store.forget_guests(connection, {one.guest.uuid for one in removal.guests} - set(failed))


def _remove_guest(drivers: Drivers, one: UnmanagedGuest, timeout_s: float) -> str | None:
    if one.host is None:
        return f"its host {one.guest.host_uuid} is unknown to this service: remove the guest on that host"
    host = HostAddress(one.guest.host_uuid, one.host.name, one.host.ip_address, one.host.hypervisor, one.host.url)
    volumes = [uuid for uuid, _, _ in one.volumes]
    try:
        driver = drivers.driver_for(host.hypervisor)
        failpoints.before(Failpoint.REMOVE_UNMANAGED)
        driver.ensure_absent(host, one.guest.uuid, volumes, fence=LAST_FENCE, timeout_s=timeout_s)
        failpoints.after(Failpoint.REMOVE_UNMANAGED)
        for uuid, pool_uuid, _ in one.volumes:  # drivers cannot find the pools of these volumes by themselves
            driver.ensure_volume_absent(pool_uuid, uuid, timeout_s=timeout_s)
    except DriverError as error:
        return str(error)
    return None


def _remove_volume(drivers: Drivers, volume: RealVolume, hypervisor: str | None, timeout_s: float) -> str | None:
    uuid, pool_uuid, _ = volume
    if hypervisor is None:
        return f"no host of this service can access its pool {pool_uuid}: remove the volume there"
    try:
        drivers.driver_for(hypervisor).ensure_volume_absent(pool_uuid, uuid, timeout_s=timeout_s)
    except DriverError as error:
        return str(error)
    return None
