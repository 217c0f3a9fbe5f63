"""The list query of annotations, the columns that tell whether a row has some, and the latest one of a host."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Table, Text, exists, literal_column, select, true, update

from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.compatibility import MANAGEMENT_SERVER as SERVER_NAME
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.rows.entities import SOURCES
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    by_id,
    equal,
    filtered,
    keyword,
    same_uuid,
)
from bulkdeploy.store.rows.known_entities import is_admin, owned, parameters_of
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.accounts import users
from bulkdeploy.store.tables.groups import annotations

ENTITIES: Mapping[str, Entity] = {
    "VM": Entity.VIRTUAL_MACHINE,
    "VOLUME": Entity.VOLUME,
    "SNAPSHOT": Entity.SNAPSHOT,
    "VM_SNAPSHOT": Entity.VM_SNAPSHOT,
    "INSTANCE_GROUP": Entity.INSTANCE_GROUP,
    "SSH_KEYPAIR": Entity.SSH_KEY_PAIR,
    "USER_DATA": Entity.USER_DATA,
    "NETWORK": Entity.NETWORK,
    "TEMPLATE": Entity.TEMPLATE,
    "ISO": Entity.ISO,
    "SERVICE_OFFERING": Entity.SERVICE_OFFERING,
    "DISK_OFFERING": Entity.DISK_OFFERING,
    "NETWORK_OFFERING": Entity.NETWORK_OFFERING,
    "ZONE": Entity.ZONE,
    "POD": Entity.POD,
    "CLUSTER": Entity.CLUSTER,
    "HOST": Entity.HOST,
    "DOMAIN": Entity.DOMAIN,
    "PRIMARY_STORAGE": Entity.STORAGE_POOL,
    "SECONDARY_STORAGE": Entity.IMAGE_STORE,
}
"""The kinds of resources by the names that CloudStack gives their types."""

_TYPES = {entity: name for name, entity in ENTITIES.items()}

MANAGEMENT_SERVER = "MANAGEMENT_SERVER"
"""The type of the service itself, which has no row."""

FILTERS: Filters = {
    "id": by_id(annotations.c.id),
    "entitytype": equal(annotations.c.entity_type),
    "entityid": same_uuid(annotations.c.entity_uuid),
    "userid": by_id(annotations.c.user_id),
    "keyword": keyword(annotations.c.annotation),
}


def annotation_columns(entity: Entity) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the columns of the field ``HAS_ANNOTATIONS`` for rows of an entity's table.

    The first is true if the row has an annotation, the second if it has one that is not for root admins only. As in
    CloudStack, the second does not depend on who else owns the row or wrote the annotation.
    """
    note = annotations.c
    of_row = select(1).where(
        note.entity_type == literal_column(f"'{_TYPES[entity]}'", Text),
        note.entity_uuid == SOURCES[entity].table.c.uuid,
        note.removed.is_(None),
    )
    public = HAS_ANNOTATIONS.public_column
    return exists(of_row).label(HAS_ANNOTATIONS.name), exists(of_row.where(~note.admins_only)).label(public)


def list_annotations(connection: Connection, caller: Caller, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of annotations, the latest first.

    Callers other than root admins see annotations of resources of owners for whom they may act, except annotations
    that only root admins may see.
    """
    note = annotations.c
    query = (
        select(
            note.uuid.label("id"),
            note.entity_type.label("entitytype"),
            note.entity_uuid.label("entityid"),
            note.annotation,
            users.c.uuid.label("userid"),
            users.c.username,
            note.admins_only.label("adminsonly"),
            note.created,
        )
        .join(users, users.c.id == note.user_id)
        .where(note.removed.is_(None), _visible_to(caller))
        .order_by(note.id.desc())
    )
    if arguments.get("annotationfilter") == "self":
        query = query.where(note.user_id == caller.user_id)
    found = filtered(query, FILTERS, arguments)
    page = fetch_page(connection, found.params(**parameters_of(caller)), paging)
    names = _names(connection, page)
    rows = [{**row, "entityname": names.get((row["entitytype"], row["entityid"]))} for row in page.rows]
    return Page(rows, page.count)


def _visible_to(caller: Caller) -> Condition:
    if caller.is_root_admin:
        return true()
    return ~annotations.c.admins_only & owned(annotations.c.account_id, is_admin(caller))


def _names(connection: Connection, page: Page) -> dict[tuple[str, Any], str]:
    names: dict[tuple[str, Any], str] = {}
    for entity_type in {row["entitytype"] for row in page.rows}:
        uuids = {row["entityid"] for row in page.rows if row["entitytype"] == entity_type}
        if entity_type == MANAGEMENT_SERVER:
            names |= {(entity_type, uuid): SERVER_NAME for uuid in uuids}
            continue
        source = SOURCES[ENTITIES[entity_type]]
        columns = source.table.c
        query = select(columns.uuid, columns[source.name]).where(columns.uuid.in_(uuids))
        names |= {(entity_type, uuid): name for uuid, name in connection.execute(query)}
    return names


def show_latest(connection: Connection, table: Table, entity_type: str, uuid: UUID) -> None:
    """Copy the latest annotation of a resource, or NULL, into the ``annotation`` column of the resource's row."""
    note = annotations.c
    latest = (
        select(note.annotation, note.created)
        .where(note.entity_type == entity_type, note.entity_uuid == uuid, note.removed.is_(None))
        .order_by(note.id.desc())
        .limit(1)
    )
    row = connection.execute(latest).first()
    text, created = (None, None) if row is None else row
    connection.execute(update(table).where(table.c.uuid == uuid).values(annotation=text, annotated=created))
