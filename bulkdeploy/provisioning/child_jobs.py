"""Jobs that a job makes for others to run, such as a move for each VM of a host."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.store.jobs.jobs import NewJob, insert_jobs


def make_child_jobs(connection: Connection, jobs: Sequence[NewJob]) -> list[JobMessage]:
    """Make jobs, at most one per instance and all of one kind; their messages, to be sent after the commit."""
    if not jobs:
        return []
    made = insert_jobs(connection, jobs, INTERACTIVE)
    return [JobMessage(job_id, jobs[0].kind, INTERACTIVE) for job_id, _ in made]
