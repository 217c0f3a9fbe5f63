"""``bulkdeploy storage``: lists storage units of hosts, excludes them from new data, and repairs them."""

import json
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from bulkdeploy.manage.installation import Installation, installation

if TYPE_CHECKING:
    from bulkdeploy.services.infrastructure.storage.storage_units import SeenUnit

PROGRAM = "bulkdeploy storage"
FOUND = 3
"""Exit code where a unit is not healthy."""


HOST = click.argument("host")
TYPE = click.argument("unit_type", metavar="TYPE")
NAME = click.argument("name")


@click.group()
def storage() -> None:
    """Manage storage units: the directories, mounts and volume groups in which hosts store data."""


@storage.command("list")
@click.option("--host", help="Only units of this host (name or id).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.pass_context
def list_command(ctx: click.Context, host: str | None, as_json: bool) -> None:
    """List the storage units of hosts. Every hypervisor is queried.

    Exit code 0: all units are healthy, 3: some are not, or a host does not respond, 1: the command failed.
    """
    from bulkdeploy.commands.infrastructure.storage.storage_units import as_row
    from bulkdeploy.services.infrastructure.storage.storage_units import storage_units_of

    with installation(ctx, PROGRAM) as installed:
        seen = storage_units_of(
            installed.reading, installed.drivers, installed.hosts(host), timeout_s=installed.timeout_s
        )
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
    """Stop or start the allocation of new data on a storage unit. Existing data is not changed.

    Example: bulkdeploy storage modify node1 lvm-pv /dev/sdb1 --allocatable no
    """
    from bulkdeploy.services.infrastructure.storage.storage_units import set_allocatable
    from bulkdeploy.store.database.engine import run_transaction

    with installation(ctx, PROGRAM) as installed:
        seen = _unit(installed, host, unit_type, name)
        wanted = allocatable == "yes"
        writing = partial(run_transaction, installed.engine)
        set_allocatable(writing, installed.drivers, seen, allocatable=wanted, timeout_s=installed.timeout_s)
        click.echo(_line(_unit(installed, host, unit_type, name)))


@storage.command()
@HOST
@TYPE
@NAME
@click.option("--dry-run", is_flag=True, help="Say whether it would be refused; change nothing.")
@click.pass_context
def repair(ctx: click.Context, host: str, unit_type: str, name: str, dry_run: bool) -> None:
    """Repair a storage unit without the data that was lost on it.

    The command is rejected unless the unit's pool is Disabled and every other copy of the volumes' data is healthy.

    Example: bulkdeploy storage repair node1 lvm-vg xenvg
    """
    from bulkdeploy.services.infrastructure.storage.storage_units import repair as repair_unit

    with installation(ctx, PROGRAM) as installed:
        seen = _unit(installed, host, unit_type, name)
        repair_unit(installed.reading, installed.drivers, seen, dry_run=dry_run, timeout_s=installed.timeout_s)
        if dry_run:
            click.echo(f"{unit_type} {name} of host {seen.host.name} may be repaired.")
            return
        seen = _unit(installed, host, unit_type, name)
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


def _unit(installed: Installation, host: str, unit_type: str, name: str) -> "SeenUnit":
    from bulkdeploy.services.infrastructure.storage.storage_units import find_storage_unit

    (row,) = installed.hosts(host)
    return find_storage_unit(
        installed.reading, installed.drivers, row, unit_type, name, timeout_s=installed.timeout_s
    )
