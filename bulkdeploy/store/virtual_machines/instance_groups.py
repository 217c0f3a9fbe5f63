"""The list query of instance groups, and the removal of VMs from them."""

from collections.abc import Collection

from sqlalchemy import Connection, select, update

from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.groups import instance_groups
from bulkdeploy.store.tables.virtual_machines import virtual_machines

FILTERS: Filters = {
    "id": by_id(instance_groups.c.id),
    "name": same_text(instance_groups.c.name),
    "keyword": keyword(instance_groups.c.name),
}


def list_instance_groups(
    connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """Return one page of instance groups by id."""
    group = instance_groups.c
    query = (
        select(
            group.uuid.label("id"),
            group.name,
            group.created,
            *owner_columns(),
            *annotation_columns(Entity.INSTANCE_GROUP),
        )
        .select_from(with_owner(instance_groups, group.account_id))
        .where(group.removed.is_(None), visibility.condition())
        .order_by(group.id)
    )
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)


def remove_members(connection: Connection, group_ids: Collection[int]) -> None:
    """Remove all VMs from these groups."""
    vm = virtual_machines.c
    connection.execute(update(virtual_machines).where(id_in(vm.group_id, group_ids)).values(group_id=None))
