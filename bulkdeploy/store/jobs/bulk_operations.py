"""Rows of bulk operations: inserted, found by token, listed and cancelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID
from zlib import crc32

from sqlalchemy import Connection, and_, func, insert, literal, null, select, text, union_all

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.jobs.job_groups import JobGroup, cancel_jobs_never_leased
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.rows.filters import Arguments, Condition, Filters, equal, filtered, keyword
from bulkdeploy.store.rows.listing import Orders, Page, Paging, fetch_page, ordered
from bulkdeploy.store.rows.visibility import Visibility, account_name, owner_columns, with_owner
from bulkdeploy.store.tables.jobs import bulk_operations
from bulkdeploy.store.tables.virtual_machines import deployments

DEPLOYMENT_COMMAND = "bulkDeployVirtualMachine"

_OPERATIONS = union_all(
    select(
        bulk_operations.c.id,
        bulk_operations.c.uuid,
        bulk_operations.c.command,
        bulk_operations.c.account_id,
        bulk_operations.c.vm_count,
        bulk_operations.c.max_parallel,
        bulk_operations.c.max_failures,
        bulk_operations.c.cancel_requested,
        bulk_operations.c.created,
    ),
    select(
        deployments.c.id,
        deployments.c.uuid,
        literal(DEPLOYMENT_COMMAND),
        deployments.c.account_id,
        deployments.c.vm_count,
        null(),
        null(),
        deployments.c.cancel_requested,
        deployments.c.created,
    ).where(deployments.c.bulk, deployments.c.batch_id.is_(None)),
).subquery("operations")


def _has_id(ref: EntityRef) -> Condition:
    """Return the SQL condition for the operation ``ref``.

    Operations and deployments may have the same internal id.
    """
    is_deployment = _OPERATIONS.c.command == DEPLOYMENT_COMMAND
    return and_(_OPERATIONS.c.id == ref.id, is_deployment == (ref.entity is Entity.DEPLOYMENT))


FILTERS: Filters = {
    "id": _has_id,
    "operation": equal(_OPERATIONS.c.command),
    "keyword": keyword(_OPERATIONS.c.command),
}

ORDERS: Orders = {
    "operation": _OPERATIONS.c.command,
    "count": _OPERATIONS.c.vm_count,
    "account": account_name(),
    "created": _OPERATIONS.c.created,
}


@dataclass(frozen=True, slots=True)
class StoredOperation:
    """A bulk operation and its jobs by VM id.

    ``failed`` are the VMs that the call did not process, each with its reason, as in the call's response.
    """

    id: int
    uuid: UUID
    created: datetime
    fingerprint: bytes
    failed: Sequence[Mapping[str, Any]]
    jobs: Sequence[tuple[UUID, UUID]]
    """The uuids of each job and of its VM."""


def insert_operation(connection: Connection, values: Mapping[str, Any]) -> tuple[int, UUID, datetime]:
    """Insert a bulk operation with these columns, and return its id, its uuid and its creation time."""
    made = insert(bulk_operations).values(values)
    row = connection.execute(
        made.returning(bulk_operations.c.id, bulk_operations.c.uuid, bulk_operations.c.created)
    ).one()
    return row.id, row.uuid, row.created


def find_operation_by_token(connection: Connection, user_id: int, token: str) -> StoredOperation | None:
    """Return the operation of the user's earlier call with this request token, or None.

    Waits for an unfinished call with the same token, and makes later calls wait until this transaction ends.
    """
    take_lock(connection, Lock.REQUEST_TOKEN, crc32(f"{user_id} {token}".encode()) - 2**31)
    operation = bulk_operations.c
    found = select(bulk_operations).where(operation.user_id == user_id, operation.request_token == token)
    row = connection.execute(found).first()
    if row is None:
        return None
    jobs = connection.execute(
        text("SELECT uuid, instance_uuid FROM async_jobs WHERE operation_id = :id ORDER BY instance_id"),
        {"id": row.id},
    )
    return StoredOperation(
        row.id,
        row.uuid,
        row.created,
        bytes(row.request_fingerprint),
        row.failed,
        [(job[0], job[1]) for job in jobs],
    )


def list_operations(connection: Connection, visible: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return a page of bulk operations and bulk deployments, newest first.

    Each row has its internal id as ``_id``, its kind of call as ``_group`` and the database's current time as
    ``_now``.
    """
    operation = _OPERATIONS.c
    query = filtered(
        select(
            operation.id.label("_id"),
            operation.uuid.label("id"),
            operation.command.label("operation"),
            *owner_columns(),
            operation.created,
            operation.vm_count.label("count"),
            operation.max_parallel.label("maxparallel"),
            operation.max_failures.label("maxfailures"),
            operation.cancel_requested,
            func.now().label("_now"),
        )
        .select_from(with_owner(_OPERATIONS, operation.account_id))
        .where(visible.condition()),
        FILTERS,
        arguments,
    )
    page = fetch_page(connection, ordered(query, ORDERS, arguments, operation.created.desc()), paging)
    rows = [{**row, "_group": group_of(row["operation"])} for row in page.rows]
    return Page(rows, page.count)


def group_of(command: str) -> JobGroup:
    """Return the job group of a row of ``list_operations`` by its command: a deployment or another operation."""
    return JobGroup.DEPLOYMENT if command == DEPLOYMENT_COMMAND else JobGroup.OPERATION


_OWNER = "SELECT account_id FROM $calls WHERE id = :id"


def operation_owner(connection: Connection, group: JobGroup, call_id: int) -> int:
    """Return the id of the account that requested the operation, or that owns the deployment's VMs."""
    return int(connection.execute(group.sql(_OWNER), {"id": call_id}).scalar_one())


_REQUEST_CANCEL = (
    "UPDATE $calls SET cancel_requested = now() WHERE id = :id AND cancel_requested IS NULL"
    " AND EXISTS (SELECT FROM async_jobs j WHERE j.$group = :id AND j.status = 0)"
)


def request_cancel(connection: Connection, group: JobGroup, call_id: int) -> bool:
    """Cancel the jobs of a call that no worker has leased. Return False if the call has no unfinished job."""
    changed = connection.execute(group.sql(_REQUEST_CANCEL), {"id": call_id})
    if changed.rowcount == 1:
        cancel_jobs_never_leased(connection, group, [call_id])
    return changed.rowcount == 1
