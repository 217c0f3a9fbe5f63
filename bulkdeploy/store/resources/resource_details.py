"""Details of resources: the list query, and writing and deleting them."""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Table, case, delete, select
from sqlalchemy.dialects.postgresql import insert as upsert

from bulkdeploy.store.resource_tags import NETWORK, SNAPSHOT, TAGGED, VOLUME, ZONE
from bulkdeploy.store.rows.filters import Arguments, Filters, equal, filtered, keyword, same_text, same_uuid
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.groups import resource_details

DETAIL = resource_details.c
TYPES = (VOLUME, NETWORK, SNAPSHOT, ZONE)
"""The types of resources that have such details, as CloudStack names them."""


def list_details(
    connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging, *, hidden: bool
) -> Page:
    """Return one page of details, ordered by id, without those of removed resources.

    ``hidden`` also includes the details that are not displayed.
    """
    resource = _resource_uuid()
    filters: Filters = {
        "resourcetype": same_text(DETAIL.resource_type),
        "resourceid": same_uuid(resource),
        "key": equal(DETAIL.key),
        "value": equal(DETAIL.value),
        "fordisplay": equal(DETAIL.display),
        "keyword": keyword(DETAIL.key, DETAIL.value),
    }
    query = (
        select(
            DETAIL.key,
            DETAIL.value,
            DETAIL.resource_type.label("resourcetype"),
            resource.label("resourceid"),
            *owner_columns(),
        )
        .select_from(with_owner(resource_details, DETAIL.account_id))
        .where(visibility.condition(), resource.is_not(None))
        .order_by(DETAIL.id)
    )
    if not hidden:
        query = query.where(DETAIL.display)
    return fetch_page(connection, filtered(query, filters, arguments), paging)


def write_details(
    connection: Connection,
    resource_type: str,
    resource_id: int,
    account_id: int,
    details: Mapping[str, str],
    *,
    display: bool,
    hidden: bool,
) -> set[str]:
    """Write details of a resource, replacing those with the same keys, and return the written keys.

    Details that are not displayed are replaced only if ``hidden`` is set.
    """
    owner = {"resource_type": resource_type, "resource_id": resource_id, "account_id": account_id}
    rows = [{**owner, "key": key, "value": value, "display": display} for key, value in details.items()]
    statement = upsert(resource_details).values(rows)
    changed = {name: statement.excluded[name] for name in ("value", "display", "account_id")}
    keys = ["resource_type", "resource_id", "key"]
    replaced = statement.on_conflict_do_update(
        index_elements=keys, set_=changed, where=None if hidden else DETAIL.display
    )
    return set(connection.execute(replaced.returning(DETAIL.key)).scalars())


def delete_details(
    connection: Connection, resource_type: str, resource_id: int, key: str | None, *, hidden: bool
) -> None:
    """Delete the detail with this key, or all details of the resource if ``key`` is None.

    Details that are not displayed are deleted only if ``hidden`` is set.
    """
    gone = delete(resource_details).where(DETAIL.resource_type == resource_type, DETAIL.resource_id == resource_id)
    if key is not None:
        gone = gone.where(DETAIL.key == key)
    if not hidden:
        gone = gone.where(DETAIL.display)
    connection.execute(gone)


def _resource_uuid() -> ColumnElement[UUID]:
    """Return the SQL expression for the uuid of a detail's resource, which is NULL if the resource was removed."""

    def uuid_in(table: Table) -> ColumnElement[UUID]:
        found = select(table.c.uuid).where(table.c.id == DETAIL.resource_id, table.c.removed.is_(None))
        return found.scalar_subquery()

    return case(*((DETAIL.resource_type == kind, uuid_in(TAGGED[kind])) for kind in TYPES))
