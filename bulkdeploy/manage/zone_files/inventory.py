"""``bulkdeploy inventory``: loads a zone file into the database, or exports a zone to a file."""

import os
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bulkdeploy.manage.configuration import service_settings
from bulkdeploy.wiring.settings import Settings

if TYPE_CHECKING:
    from bulkdeploy.manage.zone_files.loading import LoadReport

DEMO_ZONE = "demo.yaml"
PLACES_OF_ZONES = (
    Path(__file__).parents[3] / "config" / "zones",
    Path(sysconfig.get_path("data")) / "share" / "bulkdeploy" / "zones",
)
"""Where the zones that come with bulkdeploy are: in a checkout, and where it is installed."""


@click.group()
def inventory() -> None:
    """Load and export zone files, which describe zones with all their objects."""


@inventory.command("load")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.pass_context
def load_command(ctx: click.Context, file: Path) -> None:
    """Create and change objects so that they match FILE. Nothing is removed.

    FILE may be - for standard input. Drivers connect to the hosts. Loading a file twice changes nothing. If an
    entry breaks a rule, the whole file is rejected.
    """
    click.echo(describe(load(service_settings(ctx), file)))


@inventory.command("export")
@click.option("--zone", "zone_name", help="Its name; needed where there are several.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write; else the terminal.")
@click.option(
    "--with-secrets", is_flag=True, help="Write API secret keys, and hashes of passwords. Keep such a file safe."
)
@click.pass_context
def export_command(ctx: click.Context, zone_name: str | None, output: Path | None, with_secrets: bool) -> None:
    """Write the file that describes the present state of a zone. Loading the file changes nothing."""
    from bulkdeploy.manage.zone_files.exporting import export_zone
    from bulkdeploy.wiring.cipher import build_cipher
    from bulkdeploy.wiring.system import build_engine

    settings = service_settings(ctx)
    engine = build_engine(settings, application_name="bulkdeploy inventory")
    try:
        written = export_zone(engine, zone_name, decrypt=build_cipher(settings).decrypt if with_secrets else None)
    finally:
        engine.dispose()
    if output is None:
        click.echo(written, nl=False)
    else:
        write_private(output, written)


def write_private(path: Path, written: str) -> None:
    """Write a file that only its owner may read, because it may contain secrets."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(written)


def load(settings: Settings, file: Path) -> "LoadReport":
    """Load a zone file into the configured installation, and return a report.

    Raises:
        InvalidInventory: the file breaks rules. Nothing was written.
    """
    from bulkdeploy.manage.zone_files.loading import load_zone_file
    from bulkdeploy.wiring.system import build_system

    system = build_system(settings)
    try:
        return load_zone_file(system, file)
    finally:
        system.drivers.close()
        system.reading.dispose()
        system.engine.dispose()


def load_first_zone(settings: Settings, file: Path) -> None:
    """Load a file where the database has no zone yet; register the hosts with simulated hypervisors in any case."""
    from bulkdeploy.manage.simulator.hosts import register_with_simulator
    from bulkdeploy.store.infrastructure.zones import has_zone
    from bulkdeploy.wiring.system import build_engine

    engine = build_engine(settings, application_name="bulkdeploy inventory")
    try:
        with engine.connect() as connection:
            present = has_zone(connection)
        if present:
            register_with_simulator(settings, engine)
    finally:
        engine.dispose()
    if not present:
        load(settings, file)


def demo_zone_file() -> Path:
    """Return the sample zone that comes with bulkdeploy.

    Raises:
        FileNotFoundError: this installation does not contain the sample zone.
    """
    for place in PLACES_OF_ZONES:
        if (place / DEMO_ZONE).is_file():
            return place / DEMO_ZONE
    raise FileNotFoundError(f"There is no {DEMO_ZONE} in {' or '.join(map(str, PLACES_OF_ZONES))}")


def describe(report: "LoadReport") -> str:
    """Return the result of a load in a few lines."""
    lines = [
        f"{title}: {', '.join(f'{number} {section}' for section, number in counts.items())}"
        for title, counts in (("created", report.created), ("changed", report.changed))
        if counts
    ]
    return "\n".join(lines) or "Everything was there already."
