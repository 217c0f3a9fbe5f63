"""Tags of resources: inserts and deletes for many resources in one statement, and the list query."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    Table,
    TableValuedAlias,
    Text,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from bulkdeploy.store.database.arrays import any_of, int_array
from bulkdeploy.store.database.json_objects import Fields, array, members
from bulkdeploy.store.rows.filters import (
    Arguments,
    Filters,
    equal,
    filtered,
    id_in,
    keyword,
    pairs_of,
    same_text,
    same_uuid,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.groups import resource_tags, security_groups
from bulkdeploy.store.tables.networks import networks
from bulkdeploy.store.tables.offerings import templates
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.tables.virtual_machines import snapshot_policies, virtual_machines, vm_snapshots, volumes

USER_VM = "UserVm"
TEMPLATE = "Template"
ISO = "ISO"
VOLUME = "Volume"
VM_SNAPSHOT = "VMSnapshot"
SNAPSHOT = "Snapshot"
SNAPSHOT_POLICY = "SnapshotPolicy"
NETWORK = "Network"
SECURITY_GROUP = "SecurityGroup"
ZONE = "Zone"

TAGGED: Mapping[str, Table] = {
    USER_VM: virtual_machines,
    TEMPLATE: templates,
    ISO: templates,
    VOLUME: volumes,
    VM_SNAPSHOT: vm_snapshots,
    SNAPSHOT: vm_snapshots,
    SNAPSHOT_POLICY: snapshot_policies,
    NETWORK: networks,
    SECURITY_GROUP: security_groups,
    ZONE: zones,
}
"""Where the resources of each type are."""


@dataclass(frozen=True, slots=True)
class TakenKey:
    """A resource that already has a tag with this key. ``uuid`` identifies the resource."""

    uuid: UUID
    key: str


def tags_of(connection: Connection, resource_type: str, uuids: dict[int, UUID]) -> dict[int, list[dict[str, Any]]]:
    """Return the response field ``tags`` of resources, by the internal id of the resource.

    ``uuids`` maps the internal ids of the resources, all of one type, to their uuids. Resources without tags are
    omitted.
    """
    wanted = {"kind": resource_type, "ids": int_array(uuids)}
    lists: dict[int, list[dict[str, Any]]] = {}
    for row in connection.execute(_tags_query(), wanted).mappings():
        fields = {**row, "resourcetype": resource_type, "resourceid": uuids[row["resource_id"]]}
        del fields["resource_id"]
        lists.setdefault(row["resource_id"], []).append(fields)
    return lists


@cache
def _tags_query() -> Select[Any]:
    """Return tags of the resources of type ``kind`` with these ``ids``.

    Built once: building costs more than running.
    """
    tag = resource_tags.c
    return (
        select(tag.resource_id, tag.key, tag.value, tag.customer, *owner_columns())
        .select_from(with_owner(resource_tags, tag.account_id))
        .where(tag.resource_type == bindparam("kind"), tag.resource_id == any_of("ids"))
        .order_by(tag.resource_id, tag.key)
    )


def tags_part(fields: Fields, *, resource_type: str, ids: str) -> Select[Any]:
    """Return a query for the ``tags`` arrays of resources, as a part of a ``JsonQuery``.

    ``ids`` names the statement's parameter with the internal ids of the resources.
    """
    tag, table = resource_tags.c, TAGGED[resource_type]
    kind = literal_column(f"'{resource_type}'", Text)
    columns = {column.name: column for column in (tag.key, tag.value, tag.customer, *owner_columns())}
    columns |= {"resourcetype": kind, "resourceid": table.c.uuid}
    lists = partial(array, columns=columns, order=tag.key)
    return (
        select(tag.resource_id, members(fields, {}, {"tags": lists}).label("members"))
        .select_from(with_owner(resource_tags, tag.account_id).join(table, table.c.id == tag.resource_id))
        .where(tag.resource_type == kind, tag.resource_id == any_of(ids))
        .group_by(tag.resource_id)
    )


def add_tags(
    connection: Connection, resource_type: str, rows: Sequence[dict[str, Any]], *, keep_id: bool = False
) -> None:
    """Add the field ``tags`` to rows with an internal id ``_id``, and remove ``_id`` unless ``keep_id`` is set."""
    tags = tags_of(connection, resource_type, {row["_id"]: row["id"] for row in rows})
    for row in rows:
        row["tags"] = tags.get(row["_id"], [])
        if not keep_id:
            del row["_id"]


def owners_of(connection: Connection, resource_type: str, resource_ids: Sequence[int]) -> dict[int, int]:
    """Return the internal id of the account that owns each resource, by the internal id of the resource."""
    table = TAGGED[resource_type]
    query = select(table.c.id, table.c.account_id).where(id_in(table.c.id, resource_ids))
    return {row.id: row.account_id for row in connection.execute(query)}


def insert_tags(
    connection: Connection,
    resource_type: str,
    owners: Mapping[int, int],
    tags: Mapping[str, str],
    customer: str | None,
) -> TakenKey | None:
    """Add every tag to every resource. ``owners`` maps the internal ids of resources to those of their accounts.

    Returns None if all tags were written. Otherwise returns a resource that already had one of the keys; in this
    case some tags were written, and the caller must roll back.
    """
    resources = func.unnest(_array(owners, BigInteger), _array(owners.values(), BigInteger))
    named = func.unnest(_array(tags, Text), _array(tags.values(), Text))
    resource, pair = _columns(resources, "id", "account_id"), _columns(named, "key", "value")
    rows = select(
        literal(resource_type),
        resource.c.id,
        pair.c.key,
        pair.c.value,
        literal(customer, Text),
        resource.c.account_id,
    ).select_from(resource.join(pair, true()))
    columns = ["resource_type", "resource_id", "key", "value", "customer", "account_id"]
    made = insert(resource_tags).from_select(columns, rows).on_conflict_do_nothing().returning(resource_tags.c.id)
    if len(connection.execute(made).all()) == len(owners) * len(tags):
        return None
    tag, thing = resource_tags.c, TAGGED[resource_type].c
    there = (
        select(thing.uuid, tag.key)
        .join(resource_tags, tag.resource_id == thing.id)
        .where(tag.resource_type == resource_type, id_in(thing.id, owners), tag.key.in_(list(tags)))
    )
    row = connection.execute(there.order_by(tag.id).limit(1)).one()
    return TakenKey(row.uuid, row.key)


def replace_tags(
    connection: Connection, resource_type: str, owners: Mapping[int, int], tags: Mapping[str, str]
) -> None:
    """Add every tag to every resource, and replace existing tags with the same keys.

    ``owners`` maps the internal ids of the resources to the internal ids of their accounts.
    """
    delete_tags(connection, resource_type, list(owners), [(key, None) for key in tags])
    insert_tags(connection, resource_type, owners, tags, None)


def _columns(function: FunctionElement[Any], *names: str) -> TableValuedAlias:
    return function.table_valued(*names).render_derived()


def _array(values: Iterable[Any], kind: type[TypeEngine[Any]]) -> BindParameter[Any]:
    return bindparam(None, list(values), ARRAY(kind), unique=True)


def delete_tags(
    connection: Connection,
    resource_type: str,
    resource_ids: Sequence[int],
    pairs: Sequence[tuple[str, str | None]] | None,
) -> int:
    """Delete tags of resources, and return how many tags were deleted.

    ``pairs`` are the keys and values of the tags to delete. If ``pairs`` is None, all tags of the resources are
    deleted.
    """
    tag = resource_tags.c
    gone = delete(resource_tags).where(tag.resource_type == resource_type, id_in(tag.resource_id, resource_ids))
    if pairs is not None:
        wanted = pairs_of(pairs)
        same = or_(wanted.c.value.is_(None), tag.value == wanted.c.value)
        gone = gone.where(exists(select(1).select_from(wanted).where(tag.key == wanted.c.key, same)))
    return connection.execute(gone).rowcount


def list_tags(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of tags, ordered by id, without those of removed objects."""
    tag, resource = resource_tags.c, _resource_uuid()
    filters: Filters = {
        "key": equal(tag.key),
        "value": equal(tag.value),
        "customer": equal(tag.customer),
        "resourcetype": same_text(tag.resource_type),
        "resourceid": same_uuid(resource),
        "keyword": keyword(tag.key, tag.value),
    }
    query = (
        select(
            tag.key,
            tag.value,
            tag.customer,
            tag.resource_type.label("resourcetype"),
            resource.label("resourceid"),
            *owner_columns(),
        )
        .select_from(with_owner(resource_tags, tag.account_id))
        .where(visibility.condition(), resource.is_not(None))
        .order_by(tag.id)
    )
    return fetch_page(connection, filtered(query, filters, arguments), paging)


def _resource_uuid() -> ColumnElement[UUID]:
    """Return the expression for the uuid of a tag's resource, which is NULL if the resource was removed."""

    def uuid_in(table: Table) -> ColumnElement[UUID]:
        found = select(table.c.uuid).where(table.c.id == resource_tags.c.resource_id, table.c.removed.is_(None))
        return found.scalar_subquery()

    return case(*((resource_tags.c.resource_type == kind, uuid_in(table)) for kind, table in TAGGED.items()))
