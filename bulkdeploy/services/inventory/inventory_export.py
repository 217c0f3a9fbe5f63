"""Exporting a zone: the file that describes it as it is now."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from bulkdeploy.domain.errors import InvalidParameter, OperationFailed
from bulkdeploy.domain.inventory import Inventory
from bulkdeploy.services.inventory.inventory_file import parse_inventory
from bulkdeploy.services.inventory.inventory_text import inventory_text
from bulkdeploy.services.system import Cipher
from bulkdeploy.store.inventory.inventory_reading import LeftOut, OwnerReader
from bulkdeploy.store.inventory.inventory_reading_catalog import CatalogReader
from bulkdeploy.store.inventory.inventory_reading_loads import read_loads
from bulkdeploy.store.inventory.inventory_reading_places import PlaceReader
from bulkdeploy.store.inventory.inventory_topology import zone_ids


@dataclass(frozen=True, slots=True)
class Export:
    """A zone as a file, and what of it a file cannot say."""

    text: str
    left_out: tuple[str, ...]


class ExportUnreadable(OperationFailed):
    """The database holds something that would not be read back from a file as it is."""


def export_inventory(engine: Engine, *, zone_name: str | None = None, cipher: Cipher | None = None) -> Export:
    """The file that describes a zone, checked: reading it gives what was written.

    ``zone_name`` may be left out where there is one zone. Without a cipher there are no API keys and no
    password hashes in it.

    Raises:
        InvalidParameter: there is no such zone, or there are several and none is named.
        ExportUnreadable: something in the database breaks a rule of files; says what.
        InvalidInventory: the same, found by the reader.
    """
    left_out = LeftOut()
    decrypt = None if cipher is None else cipher.decrypt
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        inventory = _read(connection, _zone_id(connection, zone_name), left_out, decrypt)
    written = inventory_text(inventory)
    if parse_inventory(f"export of {inventory.zone.name}", written.encode()) != inventory:
        raise ExportUnreadable(f"Zone {inventory.zone.name} cannot be written as a file that says the same")
    return Export(written, tuple(left_out.reasons))


def _zone_id(connection: Connection, zone_name: str | None) -> int:
    zones = zone_ids(connection)
    if zone_name is None and len(zones) == 1:
        return next(iter(zones.values()))
    if zone_name not in zones:
        raise InvalidParameter(
            "zone", zone_name, f"must be the name of a zone: {', '.join(zones) or 'there is none'}"
        )
    return zones[zone_name]


def _read(
    connection: Connection, zone_id: int, left_out: LeftOut, decrypt: Callable[[bytes], str] | None
) -> Inventory:
    owners = OwnerReader(connection, left_out, decrypt).read()
    catalog = CatalogReader(connection, zone_id, owners, left_out)
    places = PlaceReader(connection, zone_id, owners, left_out)
    offerings, templates = catalog.service_offerings(), catalog.templates()
    networks = catalog.networks(places.pod_names())
    loads = read_loads(connection, zone_id, owners, (offerings, templates, networks), left_out)
    return Inventory(
        zone=places.zone(),
        configuration=places.settings(),
        domains=owners.domains,
        accounts=owners.accounts,
        service_offerings=offerings,
        disk_offerings=catalog.disk_offerings(),
        templates=templates,
        networks=networks,
        pods=places.pods(loads),
        storage_pools=places.zone_pools(),
    )
