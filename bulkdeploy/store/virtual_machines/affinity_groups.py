"""The list query of affinity groups with their VMs, and the users of a group."""

from collections.abc import Collection

from sqlalchemy import Connection, FromClause, and_, or_, select, true

from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, id_in, keyword, linked, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.rows.visibility import Visibility, owner_columns
from bulkdeploy.store.tables.accounts import accounts, domains, projects
from bulkdeploy.store.tables.groups import affinity_groups, vm_affinity_groups
from bulkdeploy.store.tables.topology import dedicated_resources
from bulkdeploy.store.virtual_machines.group_members import members_of

FILTERS: Filters = {
    "id": by_id(affinity_groups.c.id),
    "name": same_text(affinity_groups.c.name),
    "keyword": keyword(affinity_groups.c.name, affinity_groups.c.affinity_type),
    "type": same_text(affinity_groups.c.affinity_type),
    "virtualmachineid": linked(vm_affinity_groups, "affinity_group_id", affinity_groups.c.id, "vm_id"),
}

FIELDS: Fields = {
    "name": affinity_groups.c.name,
    "type": affinity_groups.c.affinity_type,
    "description": affinity_groups.c.description,
}


def list_affinity_groups(
    connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """Return one page of affinity groups by id.

    These are groups of accounts that the caller may see, and of the domains in which these accounts are.
    """
    group = affinity_groups.c
    shown = or_(
        and_(group.account_id.is_not(None), visibility.condition()),
        and_(group.account_id.is_(None), visibility.reaches(domains.c.lineage, true())),
    )
    query = (
        select(
            group.id.label("_id"),
            group.uuid.label("id"),
            group.name,
            group.description,
            group.affinity_type.label("type"),
            *owner_columns(),
        )
        .select_from(_tables())
        .where(group.removed.is_(None), shown)
        .order_by(group.id)
    )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    ids = [row["_id"] for row in rows]
    vms = members_of(connection, vm_affinity_groups, "affinity_group_id", ids, visibility)
    for row in rows:
        row["virtualmachineIds"] = vms.get(row.pop("_id"), [])
    return Page(rows, count)


def users_of(connection: Connection, group_ids: Collection[int]) -> dict[int, str]:
    """Return the reason why an affinity group cannot be deleted, by group id. Other groups are omitted.

    A group cannot be deleted while a zone, pod, cluster or host is dedicated to the group's owner by this group.
    """
    through = dedicated_resources.c.affinity_group_id
    dedicated = connection.execute(select(through).where(id_in(through, group_ids)).distinct()).scalars()
    return dict.fromkeys(dedicated, "a zone, pod, cluster or host is dedicated by it")


def remove_members(connection: Connection, group_ids: Collection[int]) -> None:
    """Remove all VMs from these groups. The VMs are not moved."""
    connection.execute(vm_affinity_groups.delete().where(id_in(vm_affinity_groups.c.affinity_group_id, group_ids)))


def _tables() -> FromClause:
    """Return affinity groups joined with their domain, and with their account unless a whole domain owns them."""
    group = affinity_groups.c
    return (
        affinity_groups.join(domains, domains.c.id == group.domain_id)
        .outerjoin(accounts, accounts.c.id == group.account_id)
        .outerjoin(projects, projects.c.account_id == accounts.c.id)
    )
