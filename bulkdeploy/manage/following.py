"""``bulkdeploy follow``: imports another cloud and follows its changes."""

import signal
import sys
import threading
from types import FrameType

import click

from bulkdeploy.cloudstack.client import Access, Client
from bulkdeploy.manage.configuration import service_settings
from bulkdeploy.manage.importing import API_KEY, CA_FILE, PACE, SECRET_KEY, URL


@click.group("follow")
def follow() -> None:
    """Follow the changes of another cloud."""


@follow.command()
@URL
@API_KEY
@SECRET_KEY
@CA_FILE
@PACE
@click.option("--zone", "zones", multiple=True, help="Name or id of the only zone to follow; may be repeated.")
@click.option(
    "--events-seconds",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Between looks at events.",
)
@click.option(
    "--places-seconds",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Between readings of clusters, hosts and storage pools.",
)
@click.option(
    "--moves-seconds",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Between readings of up to 5,000 VMs, to find those that moved without an event.",
)
@click.option(
    "--everything-seconds",
    type=click.FloatRange(min=1),
    default=3600.0,
    show_default=True,
    help="Between readings of everything.",
)
@click.pass_context
def cloudstack(
    ctx: click.Context,
    url: str,
    apikey: str,
    secretkey: str,
    ca_file: str | None,
    calls_per_second: float,
    zones: tuple[str, ...],
    events_seconds: float,
    places_seconds: float,
    moves_seconds: float,
    everything_seconds: float,
) -> None:
    """Import a CloudStack and follow its events until SIGTERM.

    The CloudStack is only read. If several processes run, one follows and the others wait until it ends.
    """
    from bulkdeploy.manage.upstream.following import Cadence, Follower
    from bulkdeploy.wiring.logs import configure_logging
    from bulkdeploy.wiring.system import build_system

    settings = service_settings(ctx)
    configure_logging(settings)
    system = build_system(settings)
    client = Client(Access(url, apikey, secretkey, ca_file, calls_per_second))
    cadence = Cadence(events_seconds, places_seconds, moves_seconds, everything_seconds)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        Follower(system, client, zones, cadence).run(threading.Event())
    finally:
        client.close()
        system.drivers.close()
        system.reading.dispose()
        system.engine.dispose()


def _end(number: int, frame: FrameType | None) -> None:
    """Exit at once. A transaction that is being written is rolled back, and repeated later."""
    del number, frame
    sys.exit(0)
