"""``bulkdeploy unmanaged``: lists, imports and removes guests without rows, which a restore can leave behind."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

from bulkdeploy.manage.installation import Installation, installation
from bulkdeploy.processes.failpoints import Failpoint

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bulkdeploy.services.virtual_machines.unmanaged.adoption import Adopted, Adoption
    from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import Unmanaged

NOTHING, FOUND, DONE, LEFT = 0, 3, 4, 5
"""Exit codes, as those of heal."""

PROGRAM = "bulkdeploy unmanaged"

T = TypeVar("T")


IDS = click.argument("ids", type=click.UUID, nargs=-1, metavar="[ID]...")
ALL = click.option(
    "--all", "everything", is_flag=True, help="All but guests that unmanageVirtualMachine let go, instead of IDs."
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
BATCH = click.option(
    "--batch", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Guests a transaction."
)


@click.group()
def unmanaged() -> None:
    """Manage guests and volumes on hypervisors that are missing in the database, for example after a restore.

    The commands are safe while the service runs, and can be killed and run again. Exit code 0: there are none, 3:
    there are some (list, dry run), 4: everything was done, 5: some are left, with the reason, 1: the command
    failed.
    """


@unmanaged.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """List guests and volumes without rows. New VMs do not get the addresses of these guests."""
    with installation(ctx, PROGRAM) as installed:
        found = unmanaged_of(installed)
        record_addresses(installed, found)
    if as_json:
        click.echo(json.dumps(as_rows(found), default=str))
    else:
        for line in lines_of(found):
            click.echo(line)
    sys.exit(FOUND if found.guests or found.volumes else NOTHING)


@unmanaged.command()
@IDS
@ALL
@click.option("--account", help="The account that gets them; the default admin's otherwise.")
@click.option("--domain", default="ROOT", show_default=True, help="The account's domain: id, path or name.")
@click.option("--offering", help="Service offering (id or name). Otherwise: the only one of their sizes.")
@click.option("--template", help="Template (id or name). Otherwise: the one they were started from.")
@DRY_RUN
@BATCH
@click.pass_context
def adopt(
    ctx: click.Context,
    *,
    ids: tuple[UUID, ...],
    everything: bool,
    account: str | None,
    domain: str,
    offering: str | None,
    template: str | None,
    dry_run: bool,
    batch: int,
) -> None:
    """Import running guests as virtual machines, with their ids, sizes, volumes, NICs and addresses.

    The guests are not changed. Their resources are claimed as by a deployment. A guest is skipped if its host, a
    pool or a limit lacks capacity, or if another NIC has its address.
    """
    with installation(ctx, PROGRAM) as installed:
        wanted = _adoption(installed, account, domain, offering, template)
        found = _chosen(unmanaged_of(installed), ids, everything=everything)
        sys.exit(adopt_all(installed, found, wanted, dry_run=dry_run, batch=batch))


@unmanaged.command()
@IDS
@ALL
@DRY_RUN
@BATCH
@click.option("--yes", is_flag=True, help="Do not ask whether what is on them may be lost.")
@click.pass_context
def remove(
    ctx: click.Context, *, ids: tuple[UUID, ...], everything: bool, dry_run: bool, batch: int, yes: bool
) -> None:
    """Remove guests with their volumes, and volumes, from their hypervisors. Their data is lost."""
    with installation(ctx, PROGRAM) as installed:
        found = _chosen(unmanaged_of(installed), ids, everything=everything)
        if not dry_run and not yes and (found.guests or found.volumes):
            what = f"{len(found.guests)} guests and {len(found.volumes)} volumes, with all that is on them"
            click.confirm(f"Remove {what}?", abort=True)
        sys.exit(remove_all(installed, found, dry_run=dry_run, batch=batch))


def unmanaged_of(installed: Installation) -> "Unmanaged":
    """Return the guests and volumes that have no row.

    Raises:
        DriverError: a hypervisor does not respond.
    """
    from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import find_unmanaged
    from bulkdeploy.store.database.engine import read_only

    return find_unmanaged(partial(read_only, installed.engine), installed.drivers)


def record_addresses(installed: Installation, found: "Unmanaged") -> None:
    """Record the addresses of the guests that were found in the database, so that new VMs do not get them."""
    from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import note_unmanaged
    from bulkdeploy.store.database.engine import run_transaction

    run_transaction(installed.engine, partial(note_unmanaged, found=found))


def adopt_all(installed: Installation, found: "Unmanaged", wanted: "Adoption", *, dry_run: bool, batch: int) -> int:
    """Import guests as VMs, ``batch`` guests per transaction, print the results, and return the exit code.

    In a dry run, nothing is written. Guests that cannot be imported alone are skipped and printed with the reason.

    Raises:
        BulkDeployError: no guest of a batch could be imported, for example because a limit of the owner would be
            exceeded.
    """
    from bulkdeploy.manage.dry_run import run_or_try
    from bulkdeploy.services.virtual_machines.unmanaged.adoption import adopt as adopt_guests
    from bulkdeploy.store.accounts.callers import default_admin

    names = {one.guest.uuid: one.name for one in found.guests}
    adopted = left = 0
    size = max(len(found.guests), 1) if dry_run else batch
    for part in _parts(found.guests, size):

        def work(connection: "Connection", part: Sequence[Any] = part) -> "Adopted":
            return adopt_guests(connection, default_admin(connection), part, wanted)

        result = run_or_try(installed.engine, work, dry_run=dry_run, at=Failpoint.ADOPT_COMMIT)
        adopted, left = adopted + len(result.vm_ids), left + len(result.left_out)
        for uuid in result.vm_ids:
            click.echo(f"{'would adopt' if dry_run else 'adopted'}  {names[uuid]} ({uuid})")
        for uuid, why in result.left_out.items():
            click.echo(f"left out  {names[uuid]} ({uuid}): {why}")
    return _exit_code(adopted, left, dry_run=dry_run)


def remove_all(installed: Installation, found: "Unmanaged", *, dry_run: bool, batch: int) -> int:
    """Remove guests and volumes from hypervisors, in batches, print the results, and return the exit code."""
    from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import begin_removal, end_removal
    from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import remove as remove_unmanaged
    from bulkdeploy.store.database.engine import run_transaction

    names = {one.guest.uuid: f"guest {one.name} ({one.guest.uuid})" for one in found.guests}
    names |= {uuid: f"volume {uuid}" for uuid, _, _ in found.volumes}
    if dry_run:
        for name in names.values():
            click.echo(f"would remove  {name}")
        return FOUND if names else NOTHING
    removed = left = 0
    parts = [replace(found, guests=part, volumes=[]) for part in _parts(found.guests, batch)]
    parts += [replace(found, guests=[], volumes=part) for part in _parts(found.volumes, batch)]
    for part in parts:
        removal = run_transaction(installed.engine, partial(begin_removal, found=part))
        failed = remove_unmanaged(installed.drivers, removal, timeout_s=installed.timeout_s)
        run_transaction(installed.engine, partial(end_removal, removal=removal, failed=failed))
        for uuid in removal.uuids:
            click.echo(f"left  {names[uuid]}: {failed[uuid]}" if uuid in failed else f"removed  {names[uuid]}")
        removed, left = removed + len(removal.uuids) - len(failed), left + len(failed)
    return _exit_code(removed, left, dry_run=False)


def lines_of(found: "Unmanaged") -> Iterator[str]:
    """Yield lines of text that describe the guests and volumes that have no row."""
    for one in found.guests:
        host = str(one.guest.host_uuid) if one.host is None else one.host.name
        sizes = f"{one.guest.cpu_number} x {one.guest.cpu_mhz} MHz, {one.guest.memory_mib} MiB"
        addresses = [nic.ip_address for nic in one.details.nics if nic.ip_address] if one.details else []
        yield (
            f"guest {one.name} ({one.guest.uuid}): {one.guest.power.value} on host {host}, {sizes},"
            f" {len(one.volumes)} volumes{', ' if addresses else ''}{', '.join(addresses)}"
            f"{', released by unmanageVirtualMachine' if one.is_released else ''}"
        )
    for uuid, pool_uuid, size in found.volumes:
        yield f"volume {uuid}: {size} bytes in pool {pool_uuid}, of no guest"
    if not found.guests and not found.volumes:
        yield "Rows know every guest and every volume."


def as_rows(found: "Unmanaged") -> Mapping[str, Sequence[Mapping[str, object]]]:
    """Return the guests and volumes that have no row, as dictionaries for JSON."""
    guests = [
        {
            "id": one.guest.uuid,
            "name": one.name,
            "hostid": one.guest.host_uuid,
            "powerstate": one.guest.power.value,
            "cpunumber": one.guest.cpu_number,
            "cpuspeed": one.guest.cpu_mhz,
            "memory": one.guest.memory_mib,
            "volumes": [{"id": uuid, "storageid": pool, "size": size} for uuid, pool, size in one.volumes],
            "ipaddresses": [nic.ip_address for nic in one.details.nics if nic.ip_address] if one.details else [],
            "letgo": one.is_released,
        }
        for one in found.guests
    ]
    return {
        "guests": guests,
        "volumes": [{"id": uuid, "storageid": pool, "size": size} for uuid, pool, size in found.volumes],
    }


def _exit_code(done: int, left: int, *, dry_run: bool) -> int:
    if left:
        return LEFT
    if not done:
        return NOTHING
    return FOUND if dry_run else DONE


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _chosen(found: "Unmanaged", ids: Sequence[UUID], *, everything: bool) -> "Unmanaged":
    if everything == bool(ids):
        raise click.UsageError("either IDs of guests and volumes or --all must be given")
    if everything:
        return replace(found, guests=[one for one in found.guests if not one.is_released])
    there = {one.guest.uuid for one in found.guests} | {volume[0] for volume in found.volumes}
    if unknown := [str(uuid) for uuid in ids if uuid not in there]:
        raise click.UsageError(
            f"{', '.join(unknown)}: not found on a hypervisor, or already in the database; see `unmanaged list`"
        )
    return replace(
        found,
        guests=[one for one in found.guests if one.guest.uuid in ids],
        volumes=[volume for volume in found.volumes if volume[0] in ids],
    )


def _adoption(
    installed: Installation, account: str | None, domain: str, offering: str | None, template: str | None
) -> "Adoption":
    from bulkdeploy.services.ownership import NO_OWNER, NamedOwner
    from bulkdeploy.services.virtual_machines.unmanaged.adoption import Adoption
    from bulkdeploy.store.database.engine import read_only
    from bulkdeploy.store.virtual_machines.unmanaged_instances import id_of_named

    with read_only(installed.engine) as connection:

        def id_of(option: str, table: str, named: str | None) -> int | None:
            if named is None:
                return None
            found = id_of_named(connection, table, named)
            if len(found) != 1:
                rule = f"it must be the name or id of one of the {table}; if several have the name, use the id"
                raise click.UsageError(f"{option}: {len(found)} {table} have the name or id {named!r}: {rule}")
            return found[0]

        owner = NO_OWNER if account is None else NamedOwner(account, id_of("--domain", "domains", domain))
        return Adoption(
            owner,
            id_of("--offering", "service_offerings", offering),
            id_of("--template", "templates", template),
        )
