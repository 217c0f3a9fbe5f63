"""Jobs that a job creates, such as a move for each VM of a host."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.jobs import PLANNED
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.store.jobs.jobs import NewJob, insert_jobs


def planned_host(params: Mapping[str, Any], vm_id: int, name: str) -> dict[str, int]:
    """Return the job parameter ``name`` with the host that the applied plan assigns to the VM.

    Returns an empty dict if no plan is applied, or if the plan assigns no host to the VM.
    """
    return next(({name: host} for vm, host, _ in params.get(PLANNED, ()) if vm == vm_id), {})


def make_child_jobs(connection: Connection, jobs: Sequence[NewJob]) -> list[JobMessage]:
    """Create jobs of one kind, at most one per instance, and return their messages.

    The caller sends the messages after the commit.
    """
    if not jobs:
        return []
    made = insert_jobs(connection, jobs, INTERACTIVE)
    return [JobMessage(job_id, jobs[0].kind, INTERACTIVE) for job_id, _ in made]
