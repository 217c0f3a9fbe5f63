"""The Celery tasks: one for each kind of job, named by ``queue.celery_queue.task_name``.

The argument of a task is the id of a job. The row of the job decides whether the job runs, and stores the result,
so a message is only a hint. A worker of Celery's pool runs tasks with ``RunsJobs``: a task lasts as long as its
job. This project's workers use ``handing_over_to`` instead, which passes the id to the job runner as soon as the
message arrives. That saves Celery's work for features that jobs do not need (ADR 9).
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

import structlog
from celery import Celery
from celery.worker.consumer import Consumer
from kombu.exceptions import ContentDisallowed, DecodeError

from bulkdeploy.processes.failpoints import Failpoint, after, before
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.running.job_runner import JobRunner
from bulkdeploy.queue.celery_queue import task_name

log = structlog.get_logger(__name__)

Accept = Callable[[int], None]
"""Takes the id of a job, and returns before the job has run.

The thread that receives messages can then take the next message. The function blocks while too many jobs are open,
so that further messages stay in Redis for other workers.
"""

LARGEST_ID = 2**63 - 1


def register_tasks(app: Celery, run: Callable[[int], None]) -> None:
    """Create one task for each kind of job in ``app``. Each task calls ``run`` with the job's id."""
    for kind in job_kinds():
        app.task(name=task_name(kind), ignore_result=True, shared=False)(run)


class RunsJobs:
    """The function behind all tasks in a pool of Celery.

    The job runner is created with the first job, because the process from which a pool's processes are forked runs
    no jobs.
    """

    def __init__(self, make_runner: Callable[[], JobRunner]) -> None:
        self._make_runner = make_runner
        self._making = Lock()
        self._runner: JobRunner | None = None

    def run(self, job_id: int) -> None:
        """Run a job if its row permits that. Returns when the job has ended or this process has given it up."""
        with self._making:
            if self._runner is None:
                self._runner = self._make_runner()
        if _is_id(job_id):
            before(Failpoint.MESSAGE_ACCEPT)
            self._runner.run(job_id)
            after(Failpoint.MESSAGE_ACCEPT)


def handing_over_to(accept: Accept) -> type[Consumer]:
    """Return a Celery consumer that passes the job id in each message to ``accept``.

    The name of the task in the message is ignored. Messages that contain no job id are dropped with a log line, so
    foreign writers to the queues in Redis do no harm.
    """

    class HandingOver(Consumer):
        def create_task_handler(self, *_: Any, **__: Any) -> Callable[[Any], None]:
            """Return the function that Celery calls with each message."""
            return lambda message: _hand_over(message, accept)

    return HandingOver


def _hand_over(message: Any, accept: Accept) -> None:
    message.ack()
    try:
        arguments, *_ = message.payload
        (job_id, *_) = arguments
    except (ContentDisallowed, DecodeError, TypeError, ValueError) as error:
        log.warning("message_dropped", why=str(error))
        return
    if _is_id(job_id):
        before(Failpoint.MESSAGE_ACCEPT)
        accept(job_id)
        after(Failpoint.MESSAGE_ACCEPT)


def _is_id(job_id: object) -> bool:
    """Return whether a value can be a job's id. Other values are logged."""
    if type(job_id) is int and 0 < job_id <= LARGEST_ID:
        return True
    log.warning("message_dropped", why=f"{str(job_id)[:100]!r} is no job's id")
    return False
