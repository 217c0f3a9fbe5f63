"""Rows of events: the list query, and the events of synchronous calls.

Events of actions on VMs are written with their jobs.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, select, update

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.store.database.copying import columns_from, copy_rows
from bulkdeploy.store.database.default_rows import ADMIN_ACCOUNT_ID, ADMIN_USER_ID
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    by_id,
    by_ids,
    filtered,
    id_in,
    keyword,
    same_text,
    same_uuid,
)
from bulkdeploy.store.rows.listing import Orders, Page, Paging, fetch_page, ordered
from bulkdeploy.store.rows.visibility import Visibility, account_name, owner_columns, with_owner
from bulkdeploy.store.tables.accounts import users
from bulkdeploy.store.tables.jobs import events

ORDERS: Orders = {
    "type": events.c.event_type,
    "level": events.c.level,
    "state": events.c.state,
    "username": users.c.username,
    "account": account_name(),
    "created": events.c.created,
}


def list_events(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of events, newest first. Archived events are listed only if ``archived`` requests them."""
    event = events.c
    query: Select[Any] = (
        select(
            event.uuid.label("id"),
            event.event_type.label("type"),
            event.level,
            event.state,
            event.description,
            event.created,
            event.archived,
            users.c.username,
            event.parent_uuid.label("parentid"),
            event.resource_type.label("resourcetype"),
            event.resource_uuid.label("resourceid"),
            *owner_columns(),
        )
        .select_from(with_owner(events, event.account_id).outerjoin(users, users.c.id == event.user_id))
        .where(visibility.condition(), event.archived == bool(arguments.get("archived")))
    )
    query = ordered(filtered(query, _filters(), arguments), ORDERS, arguments, event.id.desc())
    return fetch_page(connection, query, paging)


def choose(connection: Connection, visibility: Visibility, arguments: Arguments) -> set[int]:
    """Return the ids of the visible events that match ``ids``, ``type``, ``startdate`` and ``enddate``."""
    query = select(events.c.id).select_from(with_owner(events, events.c.account_id)).where(visibility.condition())
    filters = {name: _filters()[name] for name in ("type", "startdate", "enddate")}
    chosen = filtered(query, {**filters, "ids": by_ids(events.c.id)}, arguments)
    return set(connection.execute(chosen).scalars())


def archive_events(connection: Connection, ids: Collection[int]) -> None:
    """Mark these events as archived."""
    connection.execute(update(events).where(id_in(events.c.id, ids)).values(archived=True))


def delete_events(connection: Connection, ids: Collection[int]) -> None:
    """Delete these events."""
    connection.execute(delete(events).where(id_in(events.c.id, ids)))


@dataclass(frozen=True, slots=True)
class Happened:
    """The text of an event about a completed action.

    Attributes:
        instance: the object that the action changed, or None.
        owner: the owner of that object and of the event; if None, the caller owns the event.
    """

    event_type: EventType
    description: str
    instance: Instance | None = None
    owner: Owner | None = None


def record_events(connection: Connection, caller: Caller, happened: Iterable[Happened]) -> None:
    """Insert events about the caller's actions, in the transaction of these actions."""
    _write(connection, happened, caller.owner.account_id, caller.user_id)


def record_own_events(connection: Connection, happened: Iterable[Happened]) -> None:
    """Insert events about the service's own actions. These events belong to the first root admin."""
    _write(connection, happened, ADMIN_ACCOUNT_ID, ADMIN_USER_ID)


def _write(connection: Connection, happened: Iterable[Happened], account_id: int, user_id: int) -> None:
    rows = [
        {
            "event_type": one.event_type.value,
            "description": one.description,
            "account_id": account_id if one.owner is None else one.owner.account_id,
            "user_id": user_id,
            "resource_type": None if one.instance is None else one.instance.type,
            "resource_id": None if one.instance is None else one.instance.id,
            "resource_uuid": None if one.instance is None else one.instance.uuid,
        }
        for one in happened
    ]
    if rows:
        copy_rows(connection, events, len(rows), columns_from(rows))


def record_event(
    connection: Connection,
    caller: Caller,
    event_type: EventType,
    description: str,
    instance: Instance | None = None,
    owner: Owner | None = None,
) -> None:
    """Insert an event about an action of the caller.

    ``instance`` is the object that the action changed. If ``owner`` is None, the caller owns the event.
    """
    record_events(connection, caller, [Happened(event_type, description, instance, owner)])


def _filters() -> Filters:
    event = events.c
    return {
        "id": by_id(event.id),
        "type": same_text(event.event_type),
        "level": same_text(event.level),
        "state": same_text(event.state),
        "keyword": keyword(event.event_type, event.description, event.level, users.c.username),
        "startdate": event.created.__ge__,
        "enddate": event.created.__le__,
        "resourcetype": same_text(event.resource_type),
        "resourceid": same_uuid(event.resource_uuid),
        "startid": _of_action,
    }


def _of_action(first: EntityRef) -> Condition:
    """Return the condition for the first event of an action and the events that follow from it."""
    return (events.c.id == first.id) | (events.c.parent_uuid == first.uuid)
