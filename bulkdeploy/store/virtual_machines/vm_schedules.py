"""Rows of VM schedules: the list query, inserts, updates, deletes, and the schedules that are due."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row, and_, func, insert, literal, select, text, update
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.rows.due_rows import due_rows, lock_due
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    by_id,
    by_ids,
    equal,
    filtered,
    id_in,
    keyword,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.groups import instance_groups
from bulkdeploy.store.tables.virtual_machines import deployments, virtual_machines
from bulkdeploy.store.tables.vm_schedules import vm_schedules

SCHEDULE = vm_schedules.c

FILTERS: Filters = {
    "id": by_id(SCHEDULE.id),
    "ids": by_ids(SCHEDULE.id),
    "virtualmachineid": by_id(SCHEDULE.vm_id),
    "resourceid": by_id(SCHEDULE.vm_id),
    "groupid": by_id(SCHEDULE.group_id),
    "deploymentid": by_id(SCHEDULE.deployment_id),
    "action": equal(SCHEDULE.action),
    "enabled": equal(SCHEDULE.enabled),
    "keyword": keyword(SCHEDULE.description),
}


def list_schedules(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of schedules, ordered by id. Schedules of removed VMs and groups are omitted.

    Rows have the fields of both ``vmschedule`` and ``resourceschedule``.
    """
    joined = (
        vm_schedules.outerjoin(virtual_machines, virtual_machines.c.id == SCHEDULE.vm_id)
        .outerjoin(instance_groups, instance_groups.c.id == SCHEDULE.group_id)
        .outerjoin(deployments, deployments.c.id == SCHEDULE.deployment_id)
    )
    query = (
        select(
            SCHEDULE.uuid.label("id"),
            virtual_machines.c.uuid.label("virtualmachineid"),
            virtual_machines.c.uuid.label("resourceid"),
            literal("VirtualMachine").label("resourcetype"),
            instance_groups.c.uuid.label("groupid"),
            deployments.c.uuid.label("deploymentid"),
            func.coalesce(SCHEDULE.tags, text("'[]'::jsonb"), type_=JSONB).label("selectiontags"),
            SCHEDULE.description,
            SCHEDULE.schedule,
            SCHEDULE.time_zone.label("timezone"),
            SCHEDULE.action,
            SCHEDULE.enabled,
            SCHEDULE.start_date.label("startdate"),
            SCHEDULE.end_date.label("enddate"),
            SCHEDULE.next_run.label("nextrun"),
            SCHEDULE.created,
            *owner_columns(),
        )
        .select_from(with_owner(joined, SCHEDULE.account_id))
        .where(
            visibility.condition(),
            SCHEDULE.removed.is_(None),
            virtual_machines.c.removed.is_(None),
            instance_groups.c.removed.is_(None),
        )
        .order_by(SCHEDULE.id)
    )
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)


def read_schedule(connection: Connection, schedule: EntityRef) -> Mapping[str, Any]:
    """Return a live schedule with the same fields as in lists."""
    return list_schedules(connection, Visibility(), {"id": schedule}, Paging(1)).rows[0]


def insert_schedule(connection: Connection, values: Mapping[str, Any]) -> EntityRef:
    """Insert a schedule, and return its reference."""
    row = connection.execute(insert(vm_schedules).values(**values).returning(SCHEDULE.id, SCHEDULE.uuid)).one()
    return EntityRef(Entity.VM_SCHEDULE, row.id, row.uuid, values["description"])


def update_schedule(connection: Connection, schedule_id: int, values: Mapping[str, Any]) -> None:
    """Update columns of a schedule."""
    connection.execute(update(vm_schedules).where(SCHEDULE.id == schedule_id).values(**values))


def remove_schedules(connection: Connection, schedule_ids: Collection[int]) -> None:
    """Mark schedules as removed."""
    connection.execute(update(vm_schedules).where(id_in(SCHEDULE.id, schedule_ids)).values(removed=func.now()))


def due_schedules(connection: Connection, most: int) -> list[tuple[Any, ...]]:
    """Return the ids of schedules that are due and of their single VMs, the oldest first."""
    return due_rows(connection, (SCHEDULE.id, SCHEDULE.vm_id), SCHEDULE.next_run, _is_live(), most)


def lock_due_schedule(connection: Connection, schedule_id: int) -> Row[Any] | None:
    """Lock a schedule and return its row with the database's time as ``now``, or None if it is not due."""
    return lock_due(connection, vm_schedules, schedule_id, SCHEDULE.next_run, _is_live())


def read_target(connection: Connection, schedule: Row[Any]) -> EntityRef | None:
    """Return the VM, group or deployment on which a schedule acts, or None if it was removed."""
    for entity, table, target_id in (
        (Entity.VIRTUAL_MACHINE, virtual_machines, schedule.vm_id),
        (Entity.INSTANCE_GROUP, instance_groups, schedule.group_id),
        (Entity.DEPLOYMENT, deployments, schedule.deployment_id),
    ):
        if target_id is not None:
            row = connection.execute(select(table).where(table.c.id == target_id)).mappings().one()
            gone = row.get("removed") is not None
            return None if gone else EntityRef(entity, row["id"], row["uuid"], str(row["uuid"]))
    return None


def account_of_deployment(connection: Connection, deployment_id: int) -> int:
    """Return the id of the account that owns a bulk deployment."""
    query = select(deployments.c.account_id).where(deployments.c.id == deployment_id)
    account_id: int = connection.execute(query).scalar_one()
    return account_id


def _is_live() -> Condition:
    return and_(SCHEDULE.removed.is_(None), SCHEDULE.enabled)
