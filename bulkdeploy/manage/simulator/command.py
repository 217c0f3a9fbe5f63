"""``bulkdeploy simulator``: faults and delays of simulated hypervisors, and their guests (one file: one command).

Changes apply to every process from its next call to a simulated hypervisor, and survive restarts.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

import click

from bulkdeploy.drivers.simulator.control import Distribution, FaultKind, FaultRule, HangEffect, Latency, Step
from bulkdeploy.manage.configuration import settings_of

if TYPE_CHECKING:
    from psycopg import Connection

STEPS = [step.value for step in Step]
TIMED_STEPS = [step.value for step in Step if step is not Step.ANY]
SHARE = click.FloatRange(0, 1)
NOT_NEGATIVE = click.FloatRange(0)


@click.group()
def simulator() -> None:
    """Manage simulated hypervisors: faults, latencies, hosts and guests."""


@simulator.group()
def faults() -> None:
    """Manage the rules by which calls to simulated hypervisors fail."""


@faults.command("add")
@click.option("--step", type=click.Choice(STEPS), default="any", show_default=True, help="The step that fails.")
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in FaultKind]),
    default="transient",
    show_default=True,
    help="An error that may pass, one that stays, or no answer.",
)
@click.option("--host", help="The host's name or uuid; else every host.")
@click.option("--rate", type=SHARE, default=1.0, show_default=True, help="Share of the calls that fail.")
@click.option("--times", type=click.IntRange(1), help="How often at most; else for ever.")
@click.option("--reason", default="simulated failure", show_default=True, help="What the hypervisor says.")
@click.option("--hang-seconds", type=NOT_NEGATIVE, help="For hang: how long; else until the caller gives up.")
@click.option(
    "--effect",
    type=click.Choice([effect.value for effect in HangEffect]),
    help="For hang: whether the work gets done all the same; else by chance.",
)
@click.pass_context
def add_fault_command(
    ctx: click.Context,
    step: str,
    kind: str,
    host: str | None,
    rate: float,
    times: int | None,
    reason: str,
    hang_seconds: float | None,
    effect: str | None,
) -> None:
    """Make calls fail from now on; prints the rule's number.

    Example: bulkdeploy simulator faults add --step boot --rate 0.05
    """
    from bulkdeploy.drivers.simulator.control import add_fault

    if kind != FaultKind.HANG and (hang_seconds, effect) != (None, None):
        raise click.UsageError("--hang-seconds and --effect are allowed only with --kind hang")
    rule = FaultRule(
        Step(step),
        FaultKind(kind),
        host=host,
        rate=rate,
        remaining=times,
        reason=reason,
        hang_ms=None if hang_seconds is None else hang_seconds * 1000,
        effect=None if effect is None else HangEffect(effect),
    )
    with _database(ctx) as connection:
        click.echo(add_fault(connection, rule))


@faults.command("list")
@click.pass_context
def list_faults_command(ctx: click.Context) -> None:
    """Print all rules, including rules that cause no further failures."""
    from bulkdeploy.drivers.simulator.control import list_faults

    with _database(ctx) as connection:
        rules = list_faults(connection)
    _print_table(
        ("ID", "STEP", "KIND", "HOST", "RATE", "LEFT", "HANGS", "EFFECT", "REASON"),
        (
            (
                rule.id,
                rule.step,
                rule.kind,
                rule.host or "any",
                f"{rule.rate:g}",
                "always" if rule.remaining is None else rule.remaining,
                "" if rule.hang_ms is None else f"{rule.hang_ms / 1000:g} s",
                rule.effect or "",
                rule.reason,
            )
            for rule in rules
        ),
    )


@faults.command("clear")
@click.argument("ids", type=int, nargs=-1)
@click.pass_context
def clear_faults_command(ctx: click.Context, ids: tuple[int, ...]) -> None:
    """Remove the rules with these numbers; without numbers, all."""
    from bulkdeploy.drivers.simulator.control import clear_faults

    with _database(ctx) as connection:
        removed = clear_faults(connection, ids or None)
    click.echo(f"{removed} removed")


@simulator.group()
def latency() -> None:
    """Manage the durations of the steps of simulated hypervisors."""


@latency.command("set")
@click.argument("step", type=click.Choice(TIMED_STEPS))
@click.argument("mean_ms", type=NOT_NEGATIVE)
@click.option(
    "--distribution",
    type=click.Choice([distribution.value for distribution in Distribution]),
    default="fixed",
    show_default=True,
)
@click.option(
    "--spread-ms",
    type=NOT_NEGATIVE,
    default=0.0,
    show_default=True,
    help="uniform: half the range; normal: the standard deviation.",
)
@click.pass_context
def set_latency_command(ctx: click.Context, step: str, mean_ms: float, distribution: str, spread_ms: float) -> None:
    """Set the average duration of STEP to MEAN_MS milliseconds.

    Example: bulkdeploy simulator latency set boot 800 --distribution normal --spread-ms 200
    """
    from bulkdeploy.drivers.simulator.control import set_latency

    with _database(ctx) as connection:
        set_latency(connection, Latency(Step(step), Distribution(distribution), mean_ms, spread_ms))


@latency.command("scale")
@click.argument("factor", type=NOT_NEGATIVE)
@click.pass_context
def scale_latency_command(ctx: click.Context, factor: float) -> None:
    """Multiply all latencies with FACTOR: 0 switches them off, 1 is as set."""
    from bulkdeploy.drivers.simulator.control import set_latency_scale

    with _database(ctx) as connection:
        set_latency_scale(connection, factor)


@latency.command("list")
@click.pass_context
def list_latencies_command(ctx: click.Context) -> None:
    """Print the durations of all steps."""
    from bulkdeploy.drivers.simulator.control import latency_scale, list_latencies

    with _database(ctx) as connection:
        rows, scale = list_latencies(connection), latency_scale(connection)
    _print_table(
        ("STEP", "DISTRIBUTION", "MEAN MS", "SPREAD MS"),
        ((row.step, row.distribution, f"{row.mean_ms:g}", f"{row.spread_ms:g}") for row in rows),
    )
    click.echo(f"scale {scale:g}")


@latency.command("clear")
@click.pass_context
def clear_latencies_command(ctx: click.Context) -> None:
    """Remove the durations of all steps."""
    from bulkdeploy.drivers.simulator.control import clear_latencies

    with _database(ctx) as connection:
        clear_latencies(connection)


@simulator.command()
@click.pass_context
def hosts(ctx: click.Context) -> None:
    """Print every simulated host with its used and available resources."""
    from bulkdeploy.drivers.simulator.inventory import list_hosts

    with _database(ctx) as connection:
        uses = list_hosts(connection)
    _print_table(
        ("HOST", "UUID", "GUESTS", "MHZ", "MIB"),
        (
            (
                use.host.name,
                use.host.uuid,
                f"{use.guests_used}/{use.host.guests_limit}",
                f"{use.cpu_mhz_used}/{use.host.cpu_mhz_limit}",
                f"{use.memory_mib_used}/{use.host.memory_mib_limit}",
            )
            for use in uses
        ),
    )


@simulator.command("cut-off")
@click.argument("host")
@click.pass_context
def cut_off_command(ctx: click.Context, host: str) -> None:
    """Disconnect HOST (name or uuid): calls no longer reach the host, and its guests keep running."""
    from bulkdeploy.drivers.simulator.control import cut_off

    with _database(ctx) as connection:
        if not cut_off(connection, host):
            raise click.BadParameter(f"there is no simulated host {host!r}", param_hint="HOST")


@simulator.command("join")
@click.argument("host")
@click.pass_context
def join_command(ctx: click.Context, host: str) -> None:
    """Reconnect HOST after `cut-off`, so that calls reach the host again."""
    from bulkdeploy.drivers.simulator.control import join_again

    with _database(ctx) as connection:
        if not join_again(connection, host):
            raise click.BadParameter(f"there is no simulated host {host!r}", param_hint="HOST")


@simulator.command("break-storage")
@click.argument("host")
@click.argument("pool", type=click.UUID)
@click.pass_context
def break_storage_command(ctx: click.Context, host: str, pool: UUID) -> None:
    """Make the pool POOL (uuid) unreadable for HOST (name or uuid).

    `bulkdeploy storage repair` makes the pool readable again.
    """
    from bulkdeploy.drivers.simulator.control import break_storage

    with _database(ctx) as connection:
        if not break_storage(connection, host, pool):
            raise click.BadParameter(f"there is no simulated host {host!r}", param_hint="HOST")


@simulator.command()
@click.option("--host", help="Only those on the host with this name or uuid.")
@click.pass_context
def guests(ctx: click.Context, host: str | None) -> None:
    """Print every guest that exists on a simulated host."""
    from bulkdeploy.drivers.simulator.inventory import list_placed_guests

    with _database(ctx) as connection:
        placed = list_placed_guests(connection, host)
        _print_table(
            ("GUEST", "NAME", "HOST", "POWER", "CPU", "MIB", "VOLUMES"),
            (
                (
                    guest.uuid,
                    guest.name,
                    guest.host_name,
                    guest.power,
                    f"{guest.cpu_number} x {guest.cpu_mhz} MHz",
                    guest.memory_mib,
                    guest.volumes,
                )
                for guest in placed
            ),
        )


@contextmanager
def _database(ctx: click.Context) -> "Iterator[Connection]":
    """Yield a connection to the simulator's database. The database is created if necessary."""
    from bulkdeploy.drivers.simulator.database import connect, ensure_database
    from bulkdeploy.manage.running import with_running_services
    from bulkdeploy.wiring.drivers import simulator_url

    url = simulator_url(with_running_services(settings_of(ctx)))
    ensure_database(url)
    with connect(url) as connection:
        yield connection


def _print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table whose columns are as wide as their widest values."""
    lines = [tuple(titles), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
