"""Making, changing and deleting disk offerings (reference section 8.6)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.inventory_values import name
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject
from bulkdeploy.services.offering_places import changed_places, places, require_own
from bulkdeploy.services.system import System
from bulkdeploy.services.wire_values import checked, checked_tags, details_of
from bulkdeploy.store import disk_offerings
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.events import record_event
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.live_rows import change_row, insert_row, remove_row

KIND = "DiskOffering"
PLAIN = {
    "displaytext": "display_text",
    "customized": "customized",
    "storagetype": "storage_type",
    "provisioningtype": "provisioning_type",
    "displayoffering": "display_offering",
    "sortkey": "sort_key",
    "state": "state",
}


def create_offering(system: System, caller: Caller, given: Arguments) -> Mapping[str, Any]:
    """Make a disk offering.

    Raises:
        InvalidParameter, InvalidCombination: a size neither fixed nor chosen, or a value that breaks its rule.
        PermissionDenied: as ``offering_places.places``.
    """
    if bool(given.get("customized")) is ("disksize" in given):
        raise InvalidCombination(
            ("disksize", "customized"), "either disksize gives the size, or customized is true and the caller does"
        )
    values = {
        "disk_gib": given.get("disksize", 0),
        "details": details_of(given.get("details", ())),
        **_columns(given),
    }

    def work(connection: Connection) -> Mapping[str, Any]:
        row = {**values, **places(connection, caller, given)}
        offering = insert_row(connection, Entity.DISK_OFFERING, row)
        text = f"created disk offering {offering.name}"
        return _told(connection, caller, EventType.DISK_OFFERING_CREATE, offering, text)

    return run_transaction(system.engine, work)


def update_offering(system: System, caller: Caller, offering: EntityRef, given: Arguments) -> Mapping[str, Any]:
    """Change a disk offering; volumes that were made from it stay as they are.

    Raises:
        InvalidParameter, PermissionDenied: as ``create_offering``.
    """
    values = _columns(given)

    def work(connection: Connection) -> Mapping[str, Any]:
        require_own(connection, caller, offering, hold(connection, offering))
        row = {**values, **changed_places(connection, caller, given)}
        change_row(connection, offering, row)
        text = f"changed disk offering {offering.name}{changed(row)}"
        return _told(connection, caller, EventType.DISK_OFFERING_EDIT, offering, text)

    return run_transaction(system.engine, work)


def delete_offering(system: System, caller: Caller, offering: EntityRef) -> None:
    """Offer it to nobody any more; volumes that have it keep it.

    Raises:
        InvalidParameter: it was deleted.
        PermissionDenied: it is not the caller's to delete.
    """

    def work(connection: Connection) -> None:
        require_own(connection, caller, offering, hold(connection, offering))
        remove_row(connection, offering)
        text = f"deleted disk offering {offering.name}"
        record_event(connection, caller, EventType.DISK_OFFERING_DELETE, text, subject(KIND, offering))

    run_transaction(system.engine, work)


def _columns(given: Arguments) -> dict[str, Any]:
    values = {column: given[parameter] for parameter, column in PLAIN.items() if parameter in given}
    if "name" in given:
        values["name"] = checked("name", given["name"], name())
    if "tags" in given:
        values["storage_tags"] = checked_tags("tags", given["tags"].split(","))
    return values


def _told(
    connection: Connection, caller: Caller, event: EventType, offering: EntityRef, text: str
) -> Mapping[str, Any]:
    record_event(connection, caller, event, text, subject(KIND, offering))
    wanted = {"id": offering, "state": hold(connection, offering)["state"]}
    return only_row(disk_offerings.list_disk_offerings(connection, caller, wanted, None, ONE))
