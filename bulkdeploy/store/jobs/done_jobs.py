"""Jobs that were done with their call: what is asynchronous in CloudStack and needs no hypervisor here."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, func, insert

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.jobs import JobPhase, JobStatus
from bulkdeploy.request_id import current_request
from bulkdeploy.store.tables.jobs import async_jobs


@dataclass(frozen=True, slots=True)
class Instance:
    """What a job or an event is about: its kind in CloudStack's words (``AffinityGroup``), and its ids."""

    type: str
    id: int
    uuid: UUID


def insert_done_job(
    connection: Connection, caller: Caller, cmd: str, result: str, instance: Instance | None
) -> UUID:
    """Write a job that has succeeded, with its result as JSON, in the transaction that did its work.

    No worker ever sees it: it is done before anybody can, and has no outbox row.
    """
    made = connection.execute(
        insert(async_jobs)
        .values(
            kind=cmd,
            cmd=cmd,
            account_id=caller.owner.account_id,
            user_id=caller.user_id,
            instance_type=None if instance is None else instance.type,
            instance_id=None if instance is None else instance.id,
            instance_uuid=None if instance is None else instance.uuid,
            status=JobStatus.SUCCEEDED,
            phase=JobPhase.DONE,
            result=result,
            request_id=current_request(),
            started=func.now(),
            completed=func.now(),
        )
        .returning(async_jobs.c.uuid)
    )
    uuid: UUID = made.scalar_one()
    return uuid
