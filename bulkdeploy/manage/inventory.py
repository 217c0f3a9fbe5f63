"""``bulkdeploy inventory``: describe a zone in a file and load it, write one out, or make a large one up."""

import sysconfig
from collections.abc import Mapping
from pathlib import Path

import click

from bulkdeploy.manage.configuration import settings_of
from bulkdeploy.manage.running import with_running_services
from bulkdeploy.services.inventory import LoadReport, load_inventory
from bulkdeploy.wiring.settings import Settings

DEMO_ZONE = "demo.yaml"
PLACES_OF_ZONES = (
    Path(__file__).parents[2] / "config" / "zones",
    Path(sysconfig.get_path("data")) / "share" / "bulkdeploy" / "zones",
)
"""Where the zones that come with bulkdeploy are: in a checkout, and where it is installed."""


@click.group()
def inventory() -> None:
    """Zones with all that is in them, as files."""


@inventory.command("load")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def load_command(ctx: click.Context, file: Path) -> None:
    """Make the zone that FILE describes true: add what is missing, update what differs, remove nothing.

    Loading a file twice changes nothing. A file that breaks a rule is refused whole.
    """
    click.echo(describe(load(with_running_services(settings_of(ctx)), file)))


def load(settings: Settings, file: Path) -> LoadReport:
    """Load a file into the configured database, and let the simulated hypervisors know.

    Raises:
        InvalidInventory: the file is refused; nothing was written.
    """
    from bulkdeploy.manage.simulated_hosts import tell_simulator
    from bulkdeploy.wiring.system import build_cipher, build_engine

    engine = build_engine(settings, application_name="bulkdeploy inventory")
    try:
        report = load_inventory(engine, build_cipher(settings), file)
        tell_simulator(settings, engine)
    finally:
        engine.dispose()
    return report


def load_first_zone(settings: Settings, file: Path) -> None:
    """Load a file where the database has no zone yet; simulated hypervisors are told in any case."""
    from bulkdeploy.manage.simulated_hosts import tell_simulator
    from bulkdeploy.store.inventory_topology import has_zones
    from bulkdeploy.wiring.system import build_engine

    engine = build_engine(settings, application_name="bulkdeploy inventory")
    try:
        with engine.connect() as connection:
            present = has_zones(connection)
        if present:
            tell_simulator(settings, engine)
    finally:
        engine.dispose()
    if not present:
        load(settings, file)


def demo_zone_file() -> Path:
    """The sample zone that comes with bulkdeploy.

    Raises:
        FileNotFoundError: this installation has none.
    """
    for place in PLACES_OF_ZONES:
        if (place / DEMO_ZONE).is_file():
            return place / DEMO_ZONE
    raise FileNotFoundError(f"There is no {DEMO_ZONE} in {' or '.join(map(str, PLACES_OF_ZONES))}")


def describe(report: LoadReport) -> str:
    """What a load did, in a few lines."""
    lines = [
        f"{title}: {_listed(counts)}"
        for title, counts in (("added", report.added), ("changed", report.changed))
        if counts
    ]
    if not lines:
        return f"Zone {report.zone}: everything was there already."
    return "\n".join([f"Zone {report.zone}", *(f"  {line}" for line in lines)])


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {noun}" for noun, number in counts.items())
