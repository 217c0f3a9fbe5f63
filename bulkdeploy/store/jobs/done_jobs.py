"""Finished jobs of calls that are asynchronous in CloudStack but need no hypervisor in this service."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.jobs import JobPhase, JobStatus
from bulkdeploy.store.database.arrays import RECORD_SEPARATOR
from bulkdeploy.telemetry.request_id import current_request


@dataclass(frozen=True, slots=True)
class Instance:
    """The subject of a job or an event: its CloudStack type, such as ``AffinityGroup``, and its ids."""

    type: str
    id: int
    uuid: UUID


@dataclass(frozen=True, slots=True)
class DoneJob:
    """A job that has succeeded already: its result as JSON, and the object that it changed."""

    result: str
    instance: Instance | None


_INSERT = text(
    "INSERT INTO async_jobs (kind, cmd, account_id, user_id, instance_type, instance_id, instance_uuid,"
    "   operation_id, status, phase, result, request_id, started, completed)"
    " SELECT :cmd, :cmd, :account, :user, type, id, uuid, CAST(:operation AS bigint), :status, :phase, result,"
    "   :request, now(), now()"
    " FROM unnest(CAST(:types AS text[]), CAST(:ids AS bigint[]), CAST(:uuids AS uuid[]),"
    "   string_to_array(:results, chr(30))) WITH ORDINALITY AS done(type, id, uuid, result, place)"
    " ORDER BY place RETURNING id, uuid"
)


def insert_done_job(
    connection: Connection, caller: Caller, cmd: str, result: str, instance: Instance | None
) -> UUID:
    """Insert one job as ``insert_done_jobs`` does, and return its uuid."""
    (uuid,) = insert_done_jobs(connection, caller, cmd, [DoneJob(result, instance)])
    return uuid


def insert_done_jobs(
    connection: Connection, caller: Caller, cmd: str, jobs: Sequence[DoneJob], operation_id: int | None = None
) -> list[UUID]:
    """Insert jobs that have succeeded, in the transaction that did their work; return their uuids in order.

    No worker runs these jobs: they have no outbox rows, and are done before any worker can read them.
    ``operation_id`` is the bulk operation to which they belong.
    """
    rows = connection.execute(
        _INSERT,
        {
            "cmd": cmd,
            "account": caller.owner.account_id,
            "user": caller.user_id,
            "operation": operation_id,
            "request": current_request(),
            "status": JobStatus.SUCCEEDED,
            "phase": JobPhase.DONE,
            "types": [None if job.instance is None else job.instance.type for job in jobs],
            "ids": [None if job.instance is None else job.instance.id for job in jobs],
            "uuids": [None if job.instance is None else job.instance.uuid for job in jobs],
            "results": RECORD_SEPARATOR.join(job.result for job in jobs),
        },
    )
    return [row.uuid for row in sorted(rows, key=lambda row: int(row.id))]
