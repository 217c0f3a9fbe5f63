"""``bulkdeploy heal``: what the audit finds broken in the database is mended, or said how to."""

import sys
from functools import partial
from uuid import UUID

import click

from bulkdeploy.manage.configuration import require, settings_of
from bulkdeploy.manage.running import with_running_services
from bulkdeploy.wiring.settings import Settings

NOTHING, FAULT, FOUND, HEALED, LEFT = 0, 1, 3, 4, 5
"""Exit codes."""


@click.command("heal")
@click.option("--dry-run", is_flag=True, help="Say what is broken and what would help; change nothing.")
@click.option("--vm", type=click.UUID, help="Only what concerns this virtual machine (its id).")
@click.option("--host", metavar="HOST", help="Only what concerns this host (name or id).")
@click.option("--batch", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Rows a transaction.")
@click.pass_context
def heal(ctx: click.Context, *, dry_run: bool, vm: UUID | None, host: str | None, batch: int) -> None:
    """Mend what breaks the promises of `bulkdeploy audit` in the database.

    Safe while everything works; what a job works on is left alone. What hypervisors have is audit's to say, and not
    touched. Exit code 0: nothing was broken, 3: something is (dry run), 4: all was mended, 5: something is left,
    1: it failed.
    """
    settings = with_running_services(settings_of(ctx))
    require(settings, "database_url")
    sys.exit(run(settings, dry_run=dry_run, vm=vm, host=host, batch=batch))


def run(settings: Settings, *, dry_run: bool, vm: UUID | None, host: str | None, batch: int) -> int:
    """Heal the configured database, say what was done, and answer the exit code.

    Raises:
        UsageError: there is no such host, or more than one.
    """
    from bulkdeploy.services.heal import Healing, broken, in_rounds, mend
    from bulkdeploy.store.database.engine import read_only, run_transaction
    from bulkdeploy.store.ledger.allocations import find_hosts
    from bulkdeploy.wiring.system import build_engine

    engine = build_engine(settings, application_name="bulkdeploy heal")
    try:
        host_id = None
        if host is not None:
            with read_only(engine) as connection:
                found = find_hosts(connection, host)
            if len(found) != 1:
                rule = "HOST must be the name or the id of a host, and its id where the name is not the only one"
                raise click.UsageError(f"there are {len(found)} hosts {host!r}: {rule}")
            host_id = found[0]["id"]
        mended: dict[str, int] = {}
        if not dry_run:
            healing = Healing(batch, vm, host_id)
            mended = in_rounds(
                healing, lambda one: run_transaction(engine, partial(mend, invariant=one, healing=healing))
            )
        with read_only(engine) as connection:
            left = broken(connection)
    finally:
        engine.dispose()
    for name, count in mended.items():
        click.echo(f"mended  {name}: {count}")
    for breach, remedy in left:
        click.echo(f"BROKEN  {breach}")
        click.echo(f"        {remedy}")
    if left:
        return FOUND if dry_run else LEFT
    return HEALED if mended else NOTHING
