"""Operations on regions: add, update and remove."""

from collections.abc import Mapping

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.store.infrastructure import regions
from bulkdeploy.store.jobs.events import record_event


def add_region(connection: Connection, caller: Caller, number: int, name: str, end_point: str) -> None:
    """Add a region.

    Raises:
        InvalidParameter: a region has the number or the name.
    """
    if not regions.insert_region(connection, number, name, end_point):
        taken = regions.find_region(connection, number)
        parameter, value = ("name", name) if taken is None else ("id", number)
        raise InvalidParameter(parameter, value, f"another region has this {parameter}")
    record_event(connection, caller, EventType.REGION_ADD, f"added region {name}")


def update_region(connection: Connection, caller: Caller, number: int, values: Mapping[str, str]) -> None:
    """Set columns of a region.

    Raises:
        InvalidParameter: there is no such region, or another region has the new name.
    """
    name = _existing_name(connection, number)
    if values and not regions.update_region(connection, number, values):
        raise InvalidParameter("name", values.get("name"), "another region has this name")
    record_event(connection, caller, EventType.REGION_EDIT, f"changed region {name}: {', '.join(sorted(values))}")


def remove_region(connection: Connection, caller: Caller, number: int) -> None:
    """Remove a region.

    Raises:
        InvalidParameter: there is no such region, or it is the region of this installation.
    """
    name = _existing_name(connection, number)
    if number == regions.LOCAL:
        raise InvalidParameter("id", number, "the region of this installation cannot be removed")
    regions.delete_region(connection, number)
    record_event(connection, caller, EventType.REGION_REMOVE, f"removed region {name}")


def _existing_name(connection: Connection, number: int) -> str:
    name = regions.find_region(connection, number)
    if name is None:
        raise InvalidParameter("id", number, "there is no region with this id")
    return name
