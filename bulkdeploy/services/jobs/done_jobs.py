"""Finished jobs for calls that are asynchronous in the API but end immediately in this service.

CloudStack returns a job for many calls that only change rows. Here the transaction that makes the change also
writes the finished job with its result, so the client polls once. A rejected call returns an error immediately and
creates no job.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.store.jobs.done_jobs import Instance, insert_done_job
from bulkdeploy.store.jobs.job_results import SUCCESS_RESULT, object_result


def done_with_object(
    connection: Connection,
    caller: Caller,
    cmd: str,
    key: str,
    row: Mapping[str, Any],
    instance: Instance | None = None,
    *,
    created: bool = False,
) -> JobTicket:
    """Create a job that has already succeeded with one object as its result, and return the job's ticket.

    ``row`` has the object's fields by their API names; the result contains the object under ``key``, such as
    ``affinitygroup``. ``cmd`` is the Java class that CloudStack returns as the job's ``cmd``; clients search this
    field by keyword. If ``created`` is true, the response also contains the id of the created object ("async+id" in
    section 8 of the reference).
    """
    uuid = insert_done_job(connection, caller, cmd, object_result(key, row), instance)
    return JobTicket(str(uuid), str(instance.uuid) if created and instance is not None else None)


def done_with_success(
    connection: Connection, caller: Caller, cmd: str, instance: Instance | None = None
) -> JobTicket:
    """Create a job that has already succeeded, with the result ``{"success": true}``, and return its ticket."""
    return JobTicket(str(insert_done_job(connection, caller, cmd, SUCCESS_RESULT, instance)))
