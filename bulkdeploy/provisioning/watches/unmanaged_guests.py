"""The sweeper's search for guests without a VM row, whose addresses must not be assigned to other VMs.

A restore of an older backup leaves such guests, and unmanageVirtualMachine creates one. Operators import or remove
them. Until then, a new VM must not get the address of a running guest. Only hypervisors that report addresses are
queried.
"""

from collections.abc import Sequence
from uuid import UUID

import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy.drivers.abilities.details import DescribedGuests
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.drivers.unmanaged_guests import GuestWithoutRow, addresses_of, guests_without_rows
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.virtual_machines import unmanaged_instances as store

log = structlog.get_logger(__name__)


class UnmanagedGuests:
    """The sweeper's pass that records guests without rows.

    Args:
        engine: the database.
        drivers: the drivers of all hypervisors.
    """

    def __init__(self, engine: Engine, drivers: Drivers) -> None:
        self._engine, self._drivers = engine, drivers
        self._known: frozenset[UUID] = frozenset()

    def note_unmanaged(self) -> None:
        """Query the guests of all hypervisors once, and record the guests without a VM row in the database.

        If a hypervisor cannot be queried, the earlier records are kept.
        """
        with read_only(self._engine) as connection:
            began = store.read_moment(connection)

        def unknown(uuids: Sequence[UUID]) -> set[UUID]:
            with read_only(self._engine) as connection:
                return store.unknown_guests(connection, uuids, began)

        found: list[GuestWithoutRow] = []
        was_complete = True
        for driver in self._drivers:
            if DescribedGuests in driver.abilities:
                try:
                    found += guests_without_rows(driver, unknown)
                except DriverError as error:
                    was_complete = False
                    log.warning("unmanaged_not_seen", why=str(error))

        def note(connection: Connection) -> set[UUID]:
            uuids = {guest.uuid for guest, _ in found}
            noted = store.record_unmanaged(
                connection, uuids, addresses_of(found), began=began, was_complete=was_complete
            )
            return noted - store.released_guests(connection)

        unowned = frozenset(run_transaction(self._engine, note, Failpoint.SWEEP_UNMANAGED))
        if unowned - self._known:
            names = {guest.uuid: guest.uuid if details is None else details.name for guest, details in found}
            log.warning("guests_without_rows", guests=len(unowned), first=str(names[min(unowned - self._known)]))
        self._known = unowned
