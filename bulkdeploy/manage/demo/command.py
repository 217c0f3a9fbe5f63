"""``bulkdeploy demo``: one bulk call against a fresh installation, from start to clean shutdown."""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bulkdeploy.embedded.data_lock import exclusive
from bulkdeploy.manage import database
from bulkdeploy.manage.configuration import settings_of
from bulkdeploy.manage.programs.stack import Stack
from bulkdeploy.wiring.settings import Settings

if TYPE_CHECKING:
    from bulkdeploy.manage.demo.view import DemoView

BOOT_MS, BOOT_SPREAD_MS = 1000.0, 250.0
"""How long a simulated host takes to boot a guest."""

OF_NOBODY_ELSE: Mapping[str, object] = {
    "database_url": None,
    "redis_url": None,
    "drivers": {},
    "driver": {},
    "monitoring_listen": None,
}
"""Settings as if none were made: a demonstration deploys into no cloud that is there already."""


@click.command()
@click.option("--count", type=click.IntRange(1, 2000), default=200, show_default=True, help="VMs to deploy.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where data lives and stays; else a temporary directory that is removed.",
)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the spread into this file.")
@click.pass_context
def demo(ctx: click.Context, count: int, data_dir: Path | None, svg: Path | None) -> None:
    """Start everything, deploy COUNT VMs with one call over HTTP, show the result, and stop.

    The demonstration ignores configured servers and uses its own database, message broker and simulated
    hypervisors. Exit code 0 only if every job succeeded, the VMs are spread evenly, and the audit reports no
    discrepancy.
    """
    with _data_dir(data_dir) as place, exclusive(place):
        settings = settings_of(ctx, data_dir=place, listen="127.0.0.1:0").model_copy(update=OF_NOBODY_ELSE)
        problems = run(settings, count, svg)
    for problem in problems:
        click.echo(f"FAILED: {problem}", err=True)
    if problems:
        sys.exit(1)


def run(settings: Settings, count: int, svg: Path | None) -> list[str]:
    """Run the whole demonstration, and return the problems that occurred as texts."""
    from bulkdeploy.manage.demo.view import DemoView

    view = DemoView()
    began = time.monotonic()
    with _log(settings.data_dir / "logs" / "demo.log") as emit:
        stack = Stack(settings, emit)
        stack.supervisor.catch_signals()
        try:
            with view.working("Starting PostgreSQL, Valkey, the API, workers and the sweeper"):
                stack.start(_prepare)
                stack.wait_until_ready()
            if stack.supervisor.stop_requested:
                return ["interrupted"]
            view.started(stack.url, time.monotonic() - began)
            return _deploy(stack, view, count, svg)
        finally:
            with view.working("Stopping"):
                stack.stop()


def _prepare(settings: Settings) -> None:
    from bulkdeploy.manage.zone_files.inventory import demo_zone_file, load_first_zone

    database.prepare(settings)
    load_first_zone(settings, demo_zone_file())
    _let_hosts_take_time(settings)


def _let_hosts_take_time(settings: Settings) -> None:
    """Set a boot latency for simulated hosts, which otherwise respond immediately."""
    from bulkdeploy.drivers.simulator.control import Distribution, Latency, Step, set_latency
    from bulkdeploy.drivers.simulator.database import connect
    from bulkdeploy.wiring.drivers import simulator_url

    with connect(simulator_url(settings)) as connection:
        set_latency(connection, Latency(Step.BOOT, Distribution.NORMAL, BOOT_MS, BOOT_SPREAD_MS))


def _deploy(stack: Stack, view: "DemoView", count: int, svg: Path | None) -> list[str]:
    from bulkdeploy.manage.demo.bulk_call import BulkCall
    from bulkdeploy.manage.demo.own_api import own_api
    from bulkdeploy.manage.demo.picture import draw_spread

    with own_api(stack.settings) as api:
        call = BulkCall(api)
        with view.working("Deploying VMs into some clusters, for the call to level"):
            call.fill()
            while not (stack.supervisor.stop_requested or call.is_filled()):
                _supervise_for(stack, 0.2)
        began = time.monotonic()
        call.deploy(count)
        view.answered(count, time.monotonic() - began)
        with view.progress(count) as show:
            while not stack.supervisor.stop_requested and not show(call.progress()):
                _supervise_for(stack, 0.2)
        if stack.supervisor.stop_requested:
            return ["interrupted"]
        elapsed = time.monotonic() - began
        spread = call.spread()
        view.spread(spread)
        problems = call.problems(spread)
    problems += _discrepancies(stack.settings)
    view.summary(call.progress_seen, elapsed, problems)
    if svg is not None:
        svg.write_text(draw_spread(spread, f"One call, {count} VMs"))
    return problems


def _discrepancies(settings: Settings) -> list[str]:
    from bulkdeploy.manage.auditing.audit import check

    return [f"audit: {breach}" for finding in check(settings) for breach in finding.breaches]


def _supervise_for(stack: Stack, seconds: float) -> None:
    """Pass on the output of the child processes for this number of seconds."""
    deadline = time.monotonic() + seconds
    stack.supervisor.run(until=lambda: time.monotonic() > deadline)


@contextmanager
def _data_dir(given: Path | None) -> Iterator[Path]:
    """Yield the given directory, or a temporary directory that is deleted afterwards."""
    if given is not None:
        yield given
        return
    place = Path(tempfile.mkdtemp(prefix="bulkdeploy-demo-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _log(file: Path) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that appends lines of the programs' output to a log file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as log:
        yield lambda name, line: print(f"{name:<9}| {line}", file=log, flush=True)
