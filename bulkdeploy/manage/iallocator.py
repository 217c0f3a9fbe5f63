"""``bulkdeploy iallocator``: prints zones in the input format of allocator programs."""

import json
from typing import Any

import click
from sqlalchemy import Connection

from bulkdeploy.manage.configuration import service_settings


@click.group("iallocator")
def iallocator() -> None:
    """Work with allocator programs in the form of Ganeti's."""


@iallocator.command()
@click.argument("zone")
@click.pass_context
def export(ctx: click.Context, zone: str) -> None:
    """Print ZONE (name or id) in the format of allocator programs of placement.allocators, without a request.

    Hosts are nodes, clusters are node groups, and claims are instances; CPU is in MHz, memory and disks in MiB.
    """
    from bulkdeploy.store.database.engine import read_only
    from bulkdeploy.wiring.system import build_engine

    settings = service_settings(ctx, "database_url")
    engine = build_engine(settings, application_name="bulkdeploy iallocator")
    try:
        with read_only(engine) as connection:
            document = _document(connection, zone)
    finally:
        engine.dispose()
    if document is None:
        raise click.UsageError(f"there is no zone {zone!r}: ZONE must be the name or the id of a zone")
    click.echo(json.dumps(document, indent=1))


def _document(connection: Connection, zone: str) -> dict[str, Any] | None:
    from bulkdeploy.scheduling.allocators import exported_zone
    from bulkdeploy.store.ledger.exported_zone import find_zone

    zone_id = find_zone(connection, zone)
    return None if zone_id is None else exported_zone(connection, zone_id)
