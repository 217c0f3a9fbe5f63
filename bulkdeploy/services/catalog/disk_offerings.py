"""Disk offerings: their columns, and what makes one (reference section 8.6)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.parameters import details_of
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidCombination
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.catalog import offerings
from bulkdeploy.services.catalog.offerings import OfferingKind
from bulkdeploy.services.inventory.inventory_values import name
from bulkdeploy.services.wire_values import checked, checked_tags
from bulkdeploy.store.catalog import disk_offerings
from bulkdeploy.store.filters import Arguments

PLAIN = {
    "displaytext": "display_text",
    "customized": "customized",
    "storagetype": "storage_type",
    "provisioningtype": "provisioning_type",
    "displayoffering": "display_offering",
    "sortkey": "sort_key",
    "state": "state",
}


def create_offering(connection: Connection, caller: Caller, given: Arguments) -> Mapping[str, Any]:
    """Make a disk offering.

    Raises:
        InvalidParameter, InvalidCombination: a size neither fixed nor chosen, or a value that breaks its rule.
        PermissionDenied: as ``offering_places.places``.
    """
    if bool(given.get("customized")) is ("disksize" in given):
        raise InvalidCombination(
            ("disksize", "customized"), "either disksize gives the size, or customized is true and the caller does"
        )
    values = {"disk_gib": given.get("disksize", 0), "details": details_of(given.get("details", ()))}
    return offerings.create_offering(connection, caller, DISK_OFFERING, given, values)


def _columns(given: Arguments) -> dict[str, Any]:
    values = {column: given[parameter] for parameter, column in PLAIN.items() if parameter in given}
    if "name" in given:
        values["name"] = checked("name", given["name"], name())
    if "tags" in given:
        values["storage_tags"] = checked_tags("tags", given["tags"].split(","))
    return values


DISK_OFFERING = OfferingKind(
    Entity.DISK_OFFERING,
    "DiskOffering",
    EventType.DISK_OFFERING_CREATE,
    EventType.DISK_OFFERING_EDIT,
    EventType.DISK_OFFERING_DELETE,
    _columns,
    disk_offerings.list_disk_offerings,
)
