"""Guests without a VM row, found by comparing hypervisors with the database in pages."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from uuid import UUID

from bulkdeploy.drivers.abilities.details import DescribedGuests, GuestDetails
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.guests import Guest

GUESTS_AT_ONCE = 10_000
GuestWithoutRow = tuple[Guest, GuestDetails | None]
"""A guest, and what it was started with; None: its hypervisor does not tell."""


def guests_without_rows(
    driver: HypervisorDriver, unknown: Callable[[Sequence[UUID]], Collection[UUID]]
) -> Iterator[GuestWithoutRow]:
    """Yield the guests of a driver that ``unknown`` returns, with the descriptions of their hypervisor.

    Raises:
        DriverError: not all can be listed.
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
    """Yield guest, network and address for each IP address that hypervisors report for these guests."""
    for guest, details in found:
        for nic in () if details is None else details.nics:
            if nic.network_uuid is not None and nic.ip_address is not None:
                yield guest.uuid, nic.network_uuid, nic.ip_address
