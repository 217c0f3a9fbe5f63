"""``bulkdeploy heal``: repairs problems that the audit finds in rows or on hypervisors, or names the remedy."""

import sys
import time
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import click

from bulkdeploy.manage.configuration import service_settings
from bulkdeploy.wiring.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from bulkdeploy.services.auditing.repairs import Repaired, Repairs

NOTHING, FAULT, FOUND, HEALED, LEFT = 0, 1, 3, 4, 5
"""Exit codes."""

POLL_S = 1.0


@click.command("heal")
@click.option("--dry-run", is_flag=True, help="Say what is broken and what would help; change nothing.")
@click.option("--vm", type=click.UUID, help="Only what concerns this virtual machine (its id).")
@click.option("--host", metavar="HOST", help="Only what concerns this host (name or id).")
@click.option("--batch", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Rows a transaction.")
@click.option("--rows-only", is_flag=True, help="Ask no hypervisor, and repair nothing there.")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.IntRange(0),
    default=300,
    show_default=True,
    help="How long to wait for the jobs that repair virtual machines.",
)
@click.pass_context
def heal(
    ctx: click.Context,
    *,
    dry_run: bool,
    vm: UUID | None,
    host: str | None,
    batch: int,
    rows_only: bool,
    wait: int,
) -> None:
    """Repair the discrepancies that `bulkdeploy audit` finds, in the database and on hypervisors.

    The command is safe while the service runs, and skips objects that a job works on. Hypervisors are changed only
    by jobs, which workers run. Exit code 0: there was nothing to repair, 3: there are discrepancies (dry run), 4:
    everything was repaired, 5: discrepancies are left, 1: the command failed.
    """
    settings = service_settings(ctx, "database_url")
    sys.exit(run(settings, dry_run=dry_run, vm=vm, host=host, batch=batch, rows_only=rows_only, wait_s=wait))


def run(
    settings: Settings,
    *,
    dry_run: bool,
    vm: UUID | None,
    host: str | None,
    batch: int,
    rows_only: bool = False,
    wait_s: float = 0,
) -> int:
    """Repair the configured database and its hypervisors, print the repairs, and return the exit code.

    Raises:
        UsageError: no host has this name or id, or several hosts have this name.
        DriverSettingError: the settings of drivers are wrong.
        ClickException: a hypervisor does not respond, so that its guests are unknown.
    """
    from bulkdeploy.drivers.errors import DriverError
    from bulkdeploy.services.auditing import repairs
    from bulkdeploy.services.auditing.audit import compare
    from bulkdeploy.services.auditing.heal import Healing, broken, in_rounds, mend
    from bulkdeploy.store.database.engine import read_only, run_transaction
    from bulkdeploy.wiring.drivers import build_configured_drivers
    from bulkdeploy.wiring.system import build_engine

    engine = build_engine(settings, application_name="bulkdeploy heal")
    drivers = None if rows_only else build_configured_drivers(settings, engine)
    try:
        healing = Healing(batch, vm, None if host is None else _id_of(engine, host))
        mended: dict[str, int] = {}
        begun = repairs.Repairs()
        if not dry_run:
            found = None if drivers is None else compare(engine, drivers)
            mended = in_rounds(
                healing, lambda one: run_transaction(engine, partial(mend, invariant=one, healing=healing))
            )
            if found is not None:
                begun = run_transaction(engine, partial(repairs.begin_repairs, found=found, healing=healing))
        ended = _wait(engine, begun, wait_s)
        found = None if drivers is None else compare(engine, drivers)
        with read_only(engine) as connection:
            left = broken(connection)
            left += [] if found is None else repairs.broken(connection, found)
    except DriverError as error:
        raise click.ClickException(f"{error}. With --rows-only, hypervisors are not queried") from error
    finally:
        if drivers is not None:
            drivers.close()
        engine.dispose()
    lines = [*(f"mended  {name}: {count}" for name, count in mended.items()), *repairs.report(begun, ended)]
    unseen = [] if found is None else repairs.unknown(found)
    lines += [*(f"BROKEN  {breach}\n        {remedy}" for breach, remedy in left), *unseen]
    if lines:
        click.echo("\n".join(lines))
    if left or unseen or ended.failed or ended.unfinished:
        return FOUND if dry_run else LEFT
    return HEALED if mended or begun.jobs or begun.volumes else NOTHING


def _id_of(engine: "Engine", host: str) -> int:
    from bulkdeploy.store.database.engine import read_only
    from bulkdeploy.store.ledger.allocations import find_hosts

    with read_only(engine) as connection:
        found = find_hosts(connection, host)
    if len(found) != 1:
        rule = "HOST must be the name or id of one host; if several hosts have the name, use the id"
        raise click.UsageError(f"{len(found)} hosts have the name or id {host!r}: {rule}")
    return int(found[0]["id"])


def _wait(engine: "Engine", begun: "Repairs", wait_s: float) -> "Repaired":
    """Wait at most ``wait_s`` seconds until the repair jobs have ended, and return their results."""
    from bulkdeploy.services.auditing.repairs import ends_of
    from bulkdeploy.store.database.engine import read_only

    until = time.monotonic() + wait_s
    while True:
        with read_only(engine) as connection:
            ended = ends_of(connection, begun)
        if not ended.unfinished or time.monotonic() >= until:
            return ended
        time.sleep(POLL_S)
