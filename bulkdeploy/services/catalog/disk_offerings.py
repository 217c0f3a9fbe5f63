"""Operations on disk offerings."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.declare.parameters import details_of
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.catalog import offerings
from bulkdeploy.services.catalog.offerings import OfferingKind, tags_of
from bulkdeploy.store.catalog.disk_offerings import FIELDS
from bulkdeploy.store.catalog.disk_settings import disk_parameters_of
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import columns_of

TAGS = {"tags": "storage_tags"}


def create_disk_offerings(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create disk offerings and return them. An offering has either ``disksize`` or ``customized``.

    Raises:
        InvalidCombination: an offering has neither or both of ``disksize`` and ``customized``.
        InvalidParameter, PermissionDenied: under the same conditions as ``create_offerings``.
    """
    for given in batch:
        if bool(given.get("customized")) is ("disksize" in given):
            raise InvalidCombination(
                ("disksize", "customized"),
                "give disksize for a fixed size, or customized=true for a size that the caller chooses",
            )
    sized = [{"disksize": 0, **given} for given in batch]
    return offerings.create_offerings(connection, caller, DISK_OFFERING, sized)


def update_disk_offerings(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change disk offerings. Existing volumes of these offerings are not changed.

    Raises:
        InvalidParameter, PermissionDenied: under the same conditions as ``update_offerings``.
    """
    offerings.update_offerings(connection, caller, DISK_OFFERING, changes)


def _columns(given: Arguments) -> dict[str, Any]:
    values = {**columns_of(FIELDS, given), **tags_of(given, TAGS)}
    if settings := disk_parameters_of(given, "encrypt"):
        values["disk_parameters"] = settings
    if "disksize" in given:
        values["disk_gib"] = given["disksize"]
    if "details" in given:
        values["details"] = details_of(given["details"])
    return values


DISK_OFFERING = OfferingKind(
    Entity.DISK_OFFERING,
    "DiskOffering",
    EventType.DISK_OFFERING_CREATE,
    EventType.DISK_OFFERING_EDIT,
    EventType.DISK_OFFERING_DELETE,
    "details",
    _columns,
)
