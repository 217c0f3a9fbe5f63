"""Making, changing and deleting offerings, of service and of disk alike: what differs is an ``OfferingKind``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.catalog.offering_places import changed_places, places, require_own
from bulkdeploy.services.live_entities import ONE, changed, hold, noun, only_row, subject
from bulkdeploy.store.catalog.offering_places import Wanted
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.listing import Page, Paging
from bulkdeploy.store.live_rows import change_row, insert_row, remove_row


@dataclass(frozen=True, slots=True)
class OfferingKind:
    """One kind of offering.

    Attributes:
        subject: how events call it.
        created, edited, deleted: its events.
        columns: what a call sets, checked; raises InvalidParameter.
        find: its list query, which answers the offering as clients see it.
    """

    entity: Entity
    subject: str
    created: EventType
    edited: EventType
    deleted: EventType
    columns: Callable[[Arguments], dict[str, Any]]
    find: Callable[[Connection, Caller, Arguments, Wanted, Paging], Page]


def create_offering(
    connection: Connection, caller: Caller, kind: OfferingKind, given: Arguments, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Make an offering; ``values``: columns beside those that ``kind.columns`` finds.

    Raises:
        InvalidParameter: a value that breaks its rule.
        PermissionDenied: as ``offering_places.places``.
    """
    columns = {**values, **kind.columns(given)}
    offering = insert_row(connection, kind.entity, {**columns, **places(connection, caller, given)})
    return _told(connection, caller, kind, kind.created, offering, f"created {_named(offering)}")


def update_offering(
    connection: Connection, caller: Caller, kind: OfferingKind, offering: EntityRef, given: Arguments
) -> Mapping[str, Any]:
    """Change an offering; what was made from it stays as it is.

    Raises:
        InvalidParameter, PermissionDenied: as ``create_offering``.
    """
    columns = kind.columns(given)
    require_own(connection, caller, offering, hold(connection, offering))
    row = {**columns, **changed_places(connection, caller, given)}
    change_row(connection, offering, row)
    return _told(connection, caller, kind, kind.edited, offering, f"changed {_named(offering)}{changed(row)}")


def delete_offering(connection: Connection, caller: Caller, kind: OfferingKind, offering: EntityRef) -> None:
    """Offer it to nobody any more; what has it keeps it.

    Raises:
        InvalidParameter: it was deleted.
        PermissionDenied: it is not the caller's to delete.
    """
    require_own(connection, caller, offering, hold(connection, offering))
    remove_row(connection, offering)
    text = f"deleted {_named(offering)}"
    record_event(connection, caller, kind.deleted, text, subject(kind.subject, offering))


def _named(offering: EntityRef) -> str:
    return f"{noun(offering.entity)} {offering.name}"


def _told(
    connection: Connection, caller: Caller, kind: OfferingKind, event: EventType, offering: EntityRef, text: str
) -> Mapping[str, Any]:
    record_event(connection, caller, event, text, subject(kind.subject, offering))
    wanted = {"id": offering, "state": hold(connection, offering)["state"]}
    return only_row(kind.find(connection, caller, wanted, Wanted(), ONE))
