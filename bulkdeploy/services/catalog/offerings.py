"""Operations on service and disk offerings. ``OfferingKind`` contains their differences."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.declare.parameters import details_of
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.catalog.offering_places import require_own, require_places, without_subdomains
from bulkdeploy.services.given_details import check_given_details
from bulkdeploy.services.live_entities import changed_events, deleted_events, lock_entities, noun, subject
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, insert_rows, remove_rows

EVERYWHERE: Arguments = {"domainid": (), "zoneid": ()}


@dataclass(frozen=True, slots=True)
class OfferingKind:
    """The differences between service offerings and disk offerings.

    Attributes:
        entity: the type of the offering.
        subject: the name of the offering type in events.
        created, edited, deleted: the types of the events of these actions.
        details: the name of the parameter with the offering's details.
        columns: a function that returns the columns that the arguments of a call set.
    """

    entity: Entity
    subject: str
    created: EventType
    edited: EventType
    deleted: EventType
    details: str
    columns: Callable[[Arguments], dict[str, Any]]


def create_offerings(
    connection: Connection, caller: Caller, kind: OfferingKind, batch: Sequence[Arguments]
) -> list[EntityRef]:
    """Create offerings and return them.

    An offering without domains is available in all domains, and an offering without zones in all zones. If an
    offering has no description, its name is the description.

    Raises:
        InvalidParameter, PermissionDenied: under the same conditions as ``require_places`` and
        ``check_given_details``.
    """
    batch = [{**EVERYWHERE, **given, "displaytext": given.get("displaytext") or given["name"]} for given in batch]
    require_places(connection, caller, batch)
    batch = without_subdomains(connection, batch)
    _check_details(caller, kind, batch)
    made = insert_rows(connection, kind.entity, [kind.columns(given) for given in batch])
    record_events(
        connection,
        caller,
        (Happened(kind.created, f"created {_named(one)}", subject(kind.subject, one)) for one in made),
    )
    return made


def update_offerings(connection: Connection, caller: Caller, kind: OfferingKind, changes: Sequence[Change]) -> None:
    """Change offerings. VMs and volumes that were created from them are not changed.

    Raises:
        InvalidParameter: one of the offerings was deleted; or under the same conditions as ``create_offerings``.
        PermissionDenied: the caller may not change one of the offerings; or under the same conditions as
            ``create_offerings``.
    """
    rows = lock_entities(connection, [offering for offering, _ in changes])
    for offering, _ in changes:
        require_own(connection, caller, offering, rows[offering.id])
    require_places(connection, caller, [given for _, given in changes])
    reduced = without_subdomains(connection, [given for _, given in changes])
    changes = [(offering, given) for (offering, _), given in zip(changes, reduced, strict=True)]
    _check_details(caller, kind, [given for _, given in changes])
    written = [(offering, kind.columns(given)) for offering, given in changes]
    change_rows(connection, written)
    record_events(connection, caller, changed_events(kind.edited, kind.subject, written))


def delete_offerings(
    connection: Connection, caller: Caller, kind: OfferingKind, offerings: Sequence[EntityRef]
) -> None:
    """Delete offerings. VMs and volumes that were created from them keep their offering.

    Raises:
        InvalidParameter: one of the offerings was deleted.
        PermissionDenied: the caller may not delete one of the offerings.
    """
    rows = lock_entities(connection, offerings)
    for offering in offerings:
        require_own(connection, caller, offering, rows[offering.id])
    remove_rows(connection, offerings)
    record_events(connection, caller, deleted_events(kind.deleted, kind.subject, offerings))


def tags_of(given: Arguments, columns: Mapping[str, str]) -> dict[str, list[str]]:
    """Split the parameters with tags, which are separated by commas, and return the columns with lists of tags.

    ``columns`` maps parameters to columns. Parameters that are not given are omitted.
    """
    return {
        column: [tag for tag in given[parameter].split(",") if tag]
        for parameter, column in columns.items()
        if parameter in given
    }


def _check_details(caller: Caller, kind: OfferingKind, batch: Sequence[Arguments]) -> None:
    for given in batch:
        check_given_details(caller, details_of(given.get(kind.details, ())), kind.details)


def _named(offering: EntityRef) -> str:
    return f"{noun(offering.entity)} {offering.name}"
