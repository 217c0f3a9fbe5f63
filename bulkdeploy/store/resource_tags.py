"""Tags of resources: those of many resources in one statement, and the list query of all tags."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, case, select

from bulkdeploy.store.arrays import any_of, int_array
from bulkdeploy.store.filters import Arguments, Filters, equal, filtered, keyword, same_text, same_uuid
from bulkdeploy.store.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.groups import resource_tags, security_groups
from bulkdeploy.store.tables.networks import networks
from bulkdeploy.store.tables.offerings import templates
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines, volumes
from bulkdeploy.store.visibility import Visibility, owner_columns, with_owner

USER_VM = "UserVm"
TEMPLATE = "Template"
ISO = "ISO"
VOLUME = "Volume"
NETWORK = "Network"
SECURITY_GROUP = "SecurityGroup"
ZONE = "Zone"

TAGGED: Mapping[str, Table] = {
    USER_VM: virtual_machines,
    TEMPLATE: templates,
    ISO: templates,
    VOLUME: volumes,
    NETWORK: networks,
    SECURITY_GROUP: security_groups,
    ZONE: zones,
}
"""Where the resources of each type are."""


def tags_of(connection: Connection, resource_type: str, uuids: dict[int, UUID]) -> dict[int, list[dict[str, Any]]]:
    """``tags[]`` of each resource that has any, by internal id; ``uuids`` are the resources by internal id."""
    wanted = {"kind": resource_type, "ids": int_array(uuids)}
    lists: dict[int, list[dict[str, Any]]] = {}
    for row in connection.execute(_tags_query(), wanted).mappings():
        fields = {**row, "resourcetype": resource_type, "resourceid": uuids[row["resource_id"]]}
        del fields["resource_id"]
        lists.setdefault(row["resource_id"], []).append(fields)
    return lists


@cache
def _tags_query() -> Select[Any]:
    """Tags of the resources of type ``kind`` with these ``ids``; built once: building costs more than running."""
    tag = resource_tags.c
    return (
        select(tag.resource_id, tag.key, tag.value, tag.customer, *owner_columns())
        .select_from(with_owner(resource_tags, tag.account_id))
        .where(tag.resource_type == bindparam("kind"), tag.resource_id == any_of("ids"))
        .order_by(tag.resource_id, tag.key)
    )


def add_tags(
    connection: Connection, resource_type: str, rows: Sequence[dict[str, Any]], *, keep_id: bool = False
) -> None:
    """Put ``tags`` into rows that carry their internal id as ``_id``, and take that out unless it is kept."""
    tags = tags_of(connection, resource_type, {row["_id"]: row["id"] for row in rows})
    for row in rows:
        row["tags"] = tags.get(row["_id"], [])
        if not keep_id:
            del row["_id"]


def list_tags(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """One page of tags by id."""
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
        .where(visibility.condition())
        .order_by(tag.id)
    )
    return fetch_page(connection, filtered(query, filters, arguments), paging)


def _resource_uuid() -> ColumnElement[UUID]:
    """The uuid of what a tag is on."""
    kinds = (
        (
            resource_tags.c.resource_type == kind,
            select(table.c.uuid).where(table.c.id == resource_tags.c.resource_id).scalar_subquery(),
        )
        for kind, table in TAGGED.items()
    )
    return case(*kinds)
