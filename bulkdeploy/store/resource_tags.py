"""Tags of resources, in one statement for any number of them."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select

from bulkdeploy.store.filters import id_in
from bulkdeploy.store.tables.groups import resource_tags
from bulkdeploy.store.visibility import owner_columns, with_owner

USER_VM = "UserVm"
TEMPLATE = "Template"
ISO = "ISO"
VOLUME = "Volume"
NETWORK = "Network"
SECURITY_GROUP = "SecurityGroup"
ZONE = "Zone"


def tags_of(connection: Connection, resource_type: str, uuids: dict[int, UUID]) -> dict[int, list[dict[str, Any]]]:
    """``tags[]`` of each resource that has any, by internal id; ``uuids`` are the resources by internal id."""
    tag = resource_tags.c
    query = (
        select(tag.resource_id, tag.key, tag.value, tag.customer, *owner_columns())
        .select_from(with_owner(resource_tags, tag.account_id))
        .where(tag.resource_type == resource_type, id_in(tag.resource_id, uuids))
        .order_by(tag.resource_id, tag.key)
    )
    lists: dict[int, list[dict[str, Any]]] = {}
    for row in connection.execute(query).mappings():
        fields = {**row, "resourcetype": resource_type, "resourceid": uuids[row["resource_id"]]}
        del fields["resource_id"]
        lists.setdefault(row["resource_id"], []).append(fields)
    return lists


def add_tags(
    connection: Connection, resource_type: str, rows: Sequence[dict[str, Any]], *, internal_id: str
) -> None:
    """Put ``tags`` into rows that have tags, and take their ``internal_id`` out of all."""
    tags = tags_of(connection, resource_type, {row[internal_id]: row["id"] for row in rows})
    for row in rows:
        row["tags"] = tags.get(row.pop(internal_id), [])
