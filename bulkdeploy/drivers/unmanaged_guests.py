"""Guests without a VM row, found by comparing hypervisors with the database in pages."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from uuid import UUID

from bulkdeploy.drivers.abilities.details import DescribedGuests, GuestDetails
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.guests import Guest

GUESTS_AT_ONCE = 10_000
GuestWithoutRow = tuple[Guest, GuestDetails | None]
"""A guest, and the details with which it was started, or None if its hypervisor does not report them."""


def guests_without_rows(
    driver: HypervisorDriver, unknown: Callable[[Sequence[UUID]], Collection[UUID]]
) -> Iterator[GuestWithoutRow]:
    """Yield those guests of a driver that have no VM row, with the details that the hypervisor reports.

    Args:
        driver: the driver whose guests are listed, GUESTS_AT_ONCE at a time.
        unknown: returns those of the given uuids that have no VM row.

    Raises:
        DriverError: not all guests can be listed.
    """
    guests = driver.list_guests()
    while part := list(islice(guests, GUESTS_AT_ONCE)):
        unowned = unknown([guest.uuid for guest in part])
        listed = [guest for guest in part if guest.uuid in unowned]
        described: dict[UUID, GuestDetails] = {}
        if listed and DescribedGuests in driver.abilities:
            described = {one.uuid: one for one in DescribedGuests.of(driver).details_of_guests(listed)}
        for guest in listed:
            yield guest, described.get(guest.uuid)


def addresses_of(found: Iterable[GuestWithoutRow]) -> Iterator[tuple[UUID, UUID, str]]:
    """Yield the uuid of the guest, the uuid of the network and the IP address of each NIC of these guests.

    NICs for which the hypervisor does not report a network or an address are omitted.
    """
    for guest, details in found:
        for nic in () if details is None else details.nics:
            if nic.network_uuid is not None and nic.ip_address is not None:
                yield guest.uuid, nic.network_uuid, nic.ip_address
