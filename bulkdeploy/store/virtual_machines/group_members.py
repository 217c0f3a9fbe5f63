"""The VMs in security and affinity groups, for any number of groups in one statement."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Connection, Table, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.rows.visibility import Visibility, with_owner
from bulkdeploy.store.tables.virtual_machines import virtual_machines


def members_of(
    connection: Connection, link: Table, group: str, group_ids: Sequence[int], visibility: Visibility
) -> dict[int, list[UUID]]:
    """Return the uuids of the live VMs in each non-empty group, in the order of their creation.

    ``link`` joins VMs (``vm_id``) to groups (its column ``group``). A group may be open to a whole domain, but only
    VMs that ``visibility`` selects are returned.
    """
    vm, group_id = virtual_machines.c, link.c[group]
    query = (
        select(group_id, func.array_agg(aggregate_order_by(vm.uuid, vm.id)))
        .select_from(with_owner(link.join(virtual_machines, vm.id == link.c.vm_id), vm.account_id))
        .where(id_in(group_id, group_ids), vm.removed.is_(None), visibility.condition())
        .group_by(group_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def vms_in_groups(connection: Connection, group: Column[Any], group_ids: Collection[int]) -> dict[int, str]:
    """Return, for each non-empty group, a text that names its first VM that is not expunged.

    ``group`` is the column of the table of members that refers to the group.
    """
    members, vm = group.table.c, virtual_machines.c
    first = (
        select(group.label("group_id"), func.min(members.vm_id).label("vm_id"))
        .join(virtual_machines, vm.id == members.vm_id)
        .where(id_in(group, group_ids), vm.removed.is_(None))
        .group_by(group)
        .subquery()
    )
    query = select(first.c.group_id, vm.uuid).join(first, first.c.vm_id == vm.id)
    return {row.group_id: f"virtual machine {row.uuid} is in it" for row in connection.execute(query)}
