"""The configured database and hypervisors, for programs that use both."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from bulkdeploy.manage.configuration import service_settings
from bulkdeploy.wiring.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from bulkdeploy.drivers.registry import Drivers
    from bulkdeploy.services.infrastructure.storage.storage_units import Reading


@dataclass(frozen=True, slots=True)
class Installation:
    """The settings, the database and the drivers of a program.

    ``timeout_s`` applies to one call to a hypervisor.
    """

    settings: Settings
    engine: "Engine"
    drivers: "Drivers"

    @property
    def timeout_s(self) -> float:
        """The timeout of one call to a hypervisor, in seconds."""
        return self.settings.driver_timeout_seconds

    @property
    def reading(self) -> "Reading":
        """A function that opens read-only database connections."""
        from bulkdeploy.store.database.engine import read_only

        return partial(read_only, self.engine)

    def hosts(self, named: str | None = None) -> "Sequence[Any]":
        """Return all hosts, or the host with this name or id, as rows of ``store.infrastructure.storage_units``.

        Raises:
            UsageError: no host has this name or id, or several hosts have this name.
        """
        from bulkdeploy.store.infrastructure.storage.storage_units import hosts
        from bulkdeploy.store.ledger.allocations import find_hosts

        with self.reading() as connection:
            if named is None:
                return hosts(connection)
            found = find_hosts(connection, named)
            if len(found) != 1:
                rule = "HOST must be the name or id of one host; if several hosts have the name, use the id"
                raise click.UsageError(f"{len(found)} hosts have the name or id {named!r}: {rule}")
            return hosts(connection, host_ids=[found[0]["id"]])


@contextmanager
def installation(ctx: click.Context, program: str) -> Iterator[Installation]:
    """Open the database and drivers of the settings, and close them afterwards.

    ``program`` is the application name that the database shows for the connections.
    """
    from bulkdeploy.wiring.drivers import build_configured_drivers
    from bulkdeploy.wiring.system import arm_failpoints, build_engine

    settings = service_settings(ctx, "database_url")
    arm_failpoints(settings)
    engine = build_engine(settings, application_name=program)
    drivers = build_configured_drivers(settings, engine)
    try:
        yield Installation(settings, engine, drivers)
    finally:
        drivers.close()
        engine.dispose()
