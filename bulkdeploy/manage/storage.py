"""``bulkdeploy storage``: storage units of hosts are listed, kept from new data, repaired."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from bulkdeploy.manage.configuration import require, settings_of
from bulkdeploy.manage.running import with_running_services

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from bulkdeploy.drivers.registry import Drivers
    from bulkdeploy.services.infrastructure.storage_units import Reading, SeenUnit

FOUND = 3
"""Exit code where a unit is not healthy."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The configured database and hypervisors."""

    engine: "Engine"
    drivers: "Drivers"
    timeout_s: float

    @property
    def reading(self) -> "Reading":
        """Opens connections that read."""
        from bulkdeploy.store.database.engine import read_only

        return partial(read_only, self.engine)

    def host(self, named: str) -> Any:
        """The host of this name or id.

        Raises:
            UsageError: there is none, or more than one.
        """
        from bulkdeploy.store.infrastructure.storage_units import hosts
        from bulkdeploy.store.ledger.allocations import find_hosts

        with self.reading() as connection:
            found = find_hosts(connection, named)
            if len(found) != 1:
                rule = "HOST must be the name or the id of a host, and its id where the name is not the only one"
                raise click.UsageError(f"there are {len(found)} hosts {named!r}: {rule}")
            return hosts(connection, host_ids=[found[0]["id"]])[0]

    def unit(self, host: str, unit_type: str, name: str) -> "SeenUnit":
        """One unit."""
        from bulkdeploy.services.infrastructure.storage_units import find

        row = self.host(host)
        return find(self.reading, self.drivers, row, unit_type, name, timeout_s=self.timeout_s)


HOST = click.argument("host")
TYPE = click.argument("unit_type", metavar="TYPE")
NAME = click.argument("name")


@click.group()
def storage() -> None:
    """Storage units: what hosts keep data on, such as directories, mounts and volume groups."""


@storage.command("list")
@click.option("--host", help="Only units of this host (name or id).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.pass_context
def list_command(ctx: click.Context, host: str | None, as_json: bool) -> None:
    """Show them, host by host; every hypervisor is asked.

    Exit code 0: all are healthy, 3: some are not, or a host does not answer, 1: it failed.
    """
    from bulkdeploy.commands.infrastructure.storage_units import as_row
    from bulkdeploy.services.infrastructure.storage_units import look
    from bulkdeploy.store.infrastructure.storage_units import hosts

    with _installation(ctx) as installed:
        if host is not None:
            rows = [installed.host(host)]
        else:
            with installed.reading() as connection:
                rows = list(hosts(connection))
        seen = look(installed.reading, installed.drivers, rows, timeout_s=installed.timeout_s)
    if as_json:
        click.echo(json.dumps({"units": [as_row(one) for one in seen]}))
    else:
        for one in seen:
            click.echo(_line(one))
        if not seen:
            click.echo("No driver of these hosts tells of storage units.")
    sys.exit(0 if all(one.is_healthy for one in seen) else FOUND)


@storage.command()
@HOST
@TYPE
@NAME
@click.option("--allocatable", type=click.Choice(["yes", "no"]), required=True, help="Whether new data goes there.")
@click.pass_context
def modify(ctx: click.Context, host: str, unit_type: str, name: str, allocatable: str) -> None:
    """Stop or start allocation on a unit; what is there stays.

    Example: bulkdeploy storage modify node1 lvm-pv /dev/sdb1 --allocatable no
    """
    from bulkdeploy.services.infrastructure.storage_units import set_allocatable
    from bulkdeploy.store.database.engine import run_transaction

    with _installation(ctx) as installed:
        seen = installed.unit(host, unit_type, name)
        wanted = allocatable == "yes"
        writing = partial(run_transaction, installed.engine)
        set_allocatable(writing, installed.drivers, seen, allocatable=wanted, timeout_s=installed.timeout_s)
        click.echo(_line(installed.unit(host, unit_type, name)))


@storage.command()
@HOST
@TYPE
@NAME
@click.option("--dry-run", is_flag=True, help="Say whether it would be refused; change nothing.")
@click.pass_context
def repair(ctx: click.Context, host: str, unit_type: str, name: str, dry_run: bool) -> None:
    """Make a unit whole again, without what was lost on it.

    Refused unless every other holder of each VM's data there is healthy.

    Example: bulkdeploy storage repair node1 lvm-vg xenvg
    """
    from bulkdeploy.services.infrastructure.storage_units import repair as repair_unit

    with _installation(ctx) as installed:
        seen = installed.unit(host, unit_type, name)
        repair_unit(installed.reading, installed.drivers, seen, dry_run=dry_run, timeout_s=installed.timeout_s)
        if dry_run:
            click.echo(f"{unit_type} {name} of host {seen.host.name} may be repaired.")
            return
        seen = installed.unit(host, unit_type, name)
        click.echo(_line(seen))
        sys.exit(0 if seen.is_healthy else FOUND)


def _line(seen: "SeenUnit") -> str:
    if seen.unit is None:
        return f"BROKEN   {seen.host.name}: {seen.problem}"
    unit = seen.unit
    state = "healthy" if seen.is_healthy else "BROKEN "
    pool = "" if seen.pool is None else f", pool {seen.pool.name}"
    stopped = "" if seen.is_allocatable else ", no new data"
    sizes = f"{unit.used_bytes} of {unit.size_bytes} bytes used, {unit.free_bytes} free"
    return f"{state}  {seen.host.name} {unit.unit_type} {unit.name}: {sizes}{pool}{stopped}"


@contextmanager
def _installation(ctx: click.Context) -> Iterator[Installation]:
    from bulkdeploy.wiring.drivers import build_configured_drivers
    from bulkdeploy.wiring.system import build_engine

    settings = with_running_services(settings_of(ctx))
    require(settings, "database_url")
    engine = build_engine(settings, application_name="bulkdeploy storage")
    drivers = build_configured_drivers(settings, engine)
    try:
        yield Installation(engine, drivers, settings.driver_timeout_seconds)
    finally:
        drivers.close()
        engine.dispose()
