"""``bulkdeploy up``: runs the whole service on this machine, in one terminal."""

import shlex
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import click

from bulkdeploy.embedded.data_lock import exclusive
from bulkdeploy.manage import database, running
from bulkdeploy.manage.configuration import settings_of
from bulkdeploy.manage.programs.stack import Stack
from bulkdeploy.security.signature import sign
from bulkdeploy.wiring.settings import Settings

NAME_WIDTH = 9
DEFAULT_DATA_DIR = str(Settings.model_fields["data_dir"].default)


@click.command()
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where data lives.")
@click.option("--listen", help="Address and port of the API; port 0 takes a free one.")
@click.option("--workers", "worker_processes", type=click.IntRange(0, 64), help="Worker processes.")
@click.option(
    "--zone",
    "zone_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Zone file to load on the first start (see `bulkdeploy inventory`).",
)
@click.option(
    "--demo-zone", is_flag=True, help="Load the sample zone that comes with bulkdeploy on the first start."
)
@click.pass_context
def up(
    ctx: click.Context,
    data_dir: Path | None,
    listen: str | None,
    worker_processes: int | None,
    zone_file: Path | None,
    demo_zone: bool,
) -> None:
    """Run the whole service until Ctrl-C: PostgreSQL and Valkey (unless their URLs are set), API, workers, sweeper.

    The data is kept after the end. The service can be killed at any moment without damage.
    """
    settings = settings_of(ctx, data_dir=data_dir, listen=listen, worker_processes=worker_processes)
    if demo_zone and zone_file is None:
        from bulkdeploy.manage.zone_files.inventory import demo_zone_file

        zone_file = demo_zone_file()
    with exclusive(settings.data_dir):
        run(settings, zone_file)


def run(settings: Settings, zone_file: Path | None) -> None:
    """Start the service, write its addresses, supervise it until a stop is requested, and stop it."""
    stack = Stack(settings, emit)
    stack.supervisor.catch_signals()
    try:
        stack.start(lambda settings: prepare(settings, zone_file))
        running.announce(stack.settings)
        stack.wait_until_ready(lambda: answers_our_key(stack))
        if not stack.supervisor.stop_requested:
            welcome(stack)
        stack.supervisor.run()
        emit("up", "stopping")
    finally:
        stack.stop()
        running.withdraw(stack.settings.data_dir)


def prepare(settings: Settings, zone_file: Path | None) -> None:
    """Migrate the database, write the first rows, and load the zone file if there is no zone yet."""
    database.prepare(settings)
    if zone_file is not None:
        from bulkdeploy.manage.zone_files.inventory import load_first_zone

        load_first_zone(settings, zone_file)


def answers_our_key(stack: Stack) -> bool:
    """Return whether the API at the stack's address accepts the key of the admin in the stack's database."""
    from bulkdeploy.manage.admin import read_credentials

    admin = read_credentials(stack.settings)
    call = {"command": "listCapabilities", "response": "json", "apiKey": admin["apikey"]}
    query = urllib.parse.urlencode({**call, "signature": sign(call, admin["secretkey"])})
    try:
        with urllib.request.urlopen(f"{stack.url}/client/api?{query}", timeout=10) as answer:  # noqa: S310 - http
            return b"listcapabilitiesresponse" in answer.read()
    except OSError:
        return False


def emit(name: str, line: str) -> None:
    """Write one line of a child process's output, with the name of the child in front."""
    sys.stdout.write(f"{name:<{NAME_WIDTH}}| {line}\n")
    sys.stdout.flush()


def welcome(stack: Stack) -> None:
    """Print the URL of the service, the location of the keys, and a first command to try."""
    from bulkdeploy.manage.admin import profile_text, read_credentials

    settings = stack.settings
    config = _short(running.hand_out_keys(settings.data_dir, profile_text(read_credentials(settings))))
    place = _short(settings.data_dir)
    option = "" if place == DEFAULT_DATA_DIR else f" --data-dir {place}"
    for line in (
        f"ready: {stack.url}/client/api",
        f"data:  {place}",
        f"keys:  bulkdeploy{option} admin credentials",
        f"try:   bulkmonkey -c {config} list zones",
        "stop:  Ctrl-C",
    ):
        emit("up", line)


def _short(path: Path) -> str:
    """Return a path in the form in which a user would type it here: relative if possible, and quoted."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
