"""Locks on entities, checks of unique names and events, shared by calls that change the infrastructure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened
from bulkdeploy.store.rows.listing import Page, Paging
from bulkdeploy.store.rows.live_rows import NameTaken, lock_row, lock_rows

ONE = Paging(limit=1)


def noun(entity: Entity) -> str:
    """Return the type of an entity in words, such as ``storage pool``."""
    return entity.name.lower().replace("_", " ")


def lock_entity(
    connection: Connection, ref: EntityRef, parameter: str = "id", *, shared: bool = False
) -> Mapping[str, Any]:
    """Lock the row of an entity and return the row.

    The lock is exclusive, for changes, or shared, for adding objects that refer to the entity.

    Raises:
        InvalidParameter: the entity was deleted.
    """
    row = lock_row(connection, ref, shared=shared)
    if row is None:
        raise InvalidParameter(parameter, str(ref.uuid), f"the {noun(ref.entity)} was deleted")
    return row


def lock_entities(
    connection: Connection, refs: Sequence[EntityRef], parameter: str = "id", *, shared: bool = False
) -> dict[int, Mapping[str, Any]]:
    """Lock the rows of entities of one kind, as ``lock_entity`` does, and return the rows by internal id.

    Raises:
        InvalidParameter: one of the entities was deleted.
    """
    rows = lock_rows(connection, refs, shared=shared)
    for ref in refs:
        if ref.id not in rows:
            raise InvalidParameter(parameter, str(ref.uuid), f"the {noun(ref.entity)} was deleted")
    return rows


def given_refs(batch: Iterable[Mapping[str, Any]], parameter: str) -> list[EntityRef]:
    """Return the distinct references in the parameter ``parameter`` of the entries of a batch, in order."""
    return list(dict.fromkeys(given[parameter] for given in batch if parameter in given))


@contextmanager
def unique_name(parameter: str, name: object, what: str) -> Iterator[None]:
    """Convert a violated unique name in the block into an InvalidParameter error.

    ``what`` describes the other object in the error, such as ``another pod of the zone``.

    Raises:
        InvalidParameter: the name is taken.
    """
    try:
        yield
    except NameTaken as taken:
        raise InvalidParameter(parameter, name, f"{what} has this name already") from taken


def subject(kind: str, ref: EntityRef) -> Instance:
    """Return the object of an event, for the entity ``ref`` whose CloudStack type is ``kind``."""
    return Instance(kind, ref.id, ref.uuid)


def only_row(page: Page) -> Mapping[str, Any]:
    """Return the only row of a list that was filtered by id."""
    (row,) = page.rows
    return row


def changed_events(
    event_type: EventType, kind: str, changes: Iterable[tuple[EntityRef, Mapping[str, Any]]]
) -> Iterator[Happened]:
    """Yield one event for each changed object, with the names of its changed columns."""
    for ref, values in changes:
        text = f"changed {noun(ref.entity)} {ref.name}{changed(values)}"
        yield Happened(event_type, text, subject(kind, ref))


def deleted_events(
    event_type: EventType, kind: str, refs: Sequence[EntityRef], owners: Sequence[Owner | None] = ()
) -> Iterator[Happened]:
    """Yield one event for each deleted object.

    ``owners`` are the accounts that owned the objects, in the same order; it is empty if accounts do not own them.
    """
    for ref, owner in zip(refs, owners or [None] * len(refs), strict=True):
        yield Happened(event_type, f"deleted {noun(ref.entity)} {ref.name}", subject(kind, ref), owner)


def changed(values: Mapping[str, Any]) -> str:
    """Return the part of an event's text that names the changed columns, never their values."""
    return f": {', '.join(sorted(values))}" if values else ""
