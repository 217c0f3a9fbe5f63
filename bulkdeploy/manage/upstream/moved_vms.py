"""The search for VMs that moved, stopped or started without an event: it reads some pages of all VMs at a time."""

from collections.abc import Iterator
from itertools import islice
from uuid import UUID

from sqlalchemy import Engine

from bulkdeploy.cloudstack.client import OF_EACH_OWNER, CallRefused, Client, NotAnswered, Row
from bulkdeploy.manage.upstream.reading import VIRTUAL_MACHINES
from bulkdeploy.manage.upstream.virtual_machines import NOT_HERE, place_of
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.virtual_machines.learnt_vms import places_of

MOST_PAGES = 10
"""Pages of one round, each of at most 500 VMs."""


class MovedVms:
    """A cursor over all VMs of a CloudStack.

    CloudStack writes no event for a VM that its own HA restarts (HighAvailabilityManagerImpl.restart), that leaves
    a host in maintenance, or that was migrated without CloudStack.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pages: Iterator[list[Row]] = iter(())

    def find_next(self, engine: Engine) -> frozenset[str]:
        """Read the next pages of VMs, and return the ids of VMs whose state or host differs from the database.

        VMs that are not in the database are skipped: their events or an import add them. After the last page, and
        after an error, the next call begins with the first page.

        Raises:
            CallRefused, NotAnswered: the CloudStack rejected a call, or did not respond.
        """
        try:
            rows = [row for page in islice(self._pages, MOST_PAGES) for row in page]
        except (CallRefused, NotAnswered):
            self._pages = iter(())
            raise
        if not rows:
            self._pages = self._all_pages()
            rows = [row for page in islice(self._pages, MOST_PAGES) for row in page]
        there = {UUID(str(row["id"])): place_of(row) for row in rows if row.get("state") not in NOT_HERE}
        with read_only(engine) as connection:
            here = places_of(connection, there)
        return frozenset(str(vm) for vm, place in here.items() if place != there[vm])

    def _all_pages(self) -> Iterator[list[Row]]:
        for owned in OF_EACH_OWNER:
            parameters = {"details": "min", **owned}
            for rows, _ in self._client.pages(VIRTUAL_MACHINES, parameters):
                yield rows
