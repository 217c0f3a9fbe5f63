"""The sweeper's search for guests without a VM row, whose addresses must not be given to other VMs.

A restore of an older backup leaves such guests, and unmanageVirtualMachine makes one. They are for people to adopt
or to remove; until then a new VM must not get the address of one that runs. Only hypervisors that tell addresses
are asked.
"""

from collections.abc import Sequence
from uuid import UUID

import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.drivers.unmanaged_guests import GuestWithoutRow, addresses_of, guests_without_rows
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.virtual_machines import unmanaged_instances as store

log = structlog.get_logger(__name__)


class UnmanagedGuests:
    """The pass.

    Args:
        engine: the database.
        drivers: of all hypervisors.
    """

    def __init__(self, engine: Engine, drivers: Drivers) -> None:
        self._engine, self._drivers = engine, drivers
        self._known: frozenset[UUID] = frozenset()

    def note_unmanaged(self) -> None:
        """Read the guests of all hypervisors once, and write those without a VM row into the database.

        If a hypervisor cannot be queried, its earlier notes are kept.
        """
        with read_only(self._engine) as connection:
            began = store.read_moment(connection)

        def unknown(uuids: Sequence[UUID]) -> set[UUID]:
            with read_only(self._engine) as connection:
                return store.unknown_guests(connection, uuids, began)

        found: list[GuestWithoutRow] = []
        was_complete = True
        for driver in self._drivers:
            if Ability.GUEST_DETAILS in driver.abilities:
                try:
                    found += guests_without_rows(driver, unknown)
                except DriverError as error:
                    was_complete = False
                    log.warning("unmanaged_not_seen", why=str(error))

        def note(connection: Connection) -> set[UUID]:
            uuids = {guest.uuid for guest, _ in found}
            noted = store.note_look(connection, uuids, addresses_of(found), began=began, was_complete=was_complete)
            return noted - store.let_go_of(connection)

        unowned = frozenset(run_transaction(self._engine, note, Failpoint.SWEEP_UNMANAGED))
        if unowned - self._known:
            names = {guest.uuid: guest.uuid if details is None else details.name for guest, details in found}
            log.warning("guests_without_rows", guests=len(unowned), first=str(names[min(unowned - self._known)]))
        self._known = unowned
