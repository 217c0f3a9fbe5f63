"""The submission of jobs: inserted in the caller's transaction and sent after its commit."""

from collections.abc import Sequence
from functools import partial

import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.errors import ConflictRetriesExhausted
from bulkdeploy.processes.failpoints import Failpoint, after, before
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage, JobQueue, QueueUnavailable
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import after_commit, run_transaction
from bulkdeploy.store.jobs.jobs import NewJob, insert_jobs
from bulkdeploy.store.jobs.outbox import forget_sent
from bulkdeploy.telemetry.tracing import SpanKind, span

log = structlog.get_logger(__name__)


def submit_jobs(connection: Connection, job_queue: JobQueue, jobs: Sequence[NewJob]) -> list[JobTicket]:
    """Insert jobs in the queue of interactive calls, send them after the commit, and return their tickets."""
    made = insert_jobs(connection, jobs, INTERACTIVE)
    messages = [JobMessage(job_id, job.kind, INTERACTIVE) for job, (job_id, _) in zip(jobs, made, strict=True)]
    send_jobs(connection, job_queue, messages)
    return [JobTicket(str(uuid)) for _, uuid in made]


def send_jobs(connection: Connection, job_queue: JobQueue, messages: Sequence[JobMessage]) -> None:
    """Send jobs to the message broker after the commit.

    If the broker fails, the jobs stay in the outbox and the sweeper sends them later. No error is raised, because
    the call that created the jobs is already committed. Sending a job twice is harmless.
    """
    if messages:
        after_commit(connection, partial(_send, job_queue, messages))


def _send(job_queue: JobQueue, messages: Sequence[JobMessage], engine: Engine) -> None:
    before(Failpoint.CALL_PUBLISH)
    with span("send jobs", SpanKind.PRODUCER, lambda: {"messaging.batch.message_count": len(messages)}) as sending:
        try:
            job_queue.send(messages)
        except QueueUnavailable as error:
            sending.fail(str(error))
            log.warning("jobs_not_sent", jobs=len(messages), why=str(error))
            return
    after(Failpoint.CALL_PUBLISH)
    clear = partial(forget_sent, job_ids=[message.job_id for message in messages])
    try:
        run_transaction(engine, clear, Failpoint.CALL_CLEAR)
    except Exception as error:
        if not (is_unreachable(error) or isinstance(error, ConflictRetriesExhausted)):
            raise
        log.warning("outbox_not_cleared", jobs=len(messages), why=str(error).splitlines()[0])
