"""The Celery tasks: one per kind of job, named after it (``queue.celery_queue.task_name``), called with a job's id.

There are two ways to consume them. Any Celery worker runs them as it runs all tasks, in a pool of its own, where a
task lasts as long as its job: ``RunsJobs``. And our own worker hands each id to its runner where the message
arrives: ``handing_over_to``. Celery's handling makes a request, a context, a trace and a result of each message,
for tasks that may fail, return something or be revoked; ADR 9 has what leaving it out saves.

Either way a message is a hint: whether the job runs, and what became of it, stands in its row.
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
"""Returns as soon as the job is in hand, so a worker's one consuming thread takes the next message while drivers
work; blocks while too many jobs are open, so messages stay in Redis for other workers."""

LARGEST_ID = 2**63 - 1


def register_tasks(app: Celery, run: Callable[[int], None]) -> None:
    """Give ``app`` a task per kind of job, each of which calls ``run`` with the job's id."""
    for kind in job_kinds():
        app.task(name=task_name(kind), ignore_result=True, shared=False)(run)


class RunsJobs:
    """The function of all tasks in a pool of Celery: run the job, and return when it has ended here.

    The runner is made with the first job that a process runs, for what a pool's process was forked from runs none.
    """

    def __init__(self, make_runner: Callable[[], JobRunner]) -> None:
        self._make_runner = make_runner
        self._making = Lock()
        self._runner: JobRunner | None = None

    def run(self, job_id: int) -> None:
        """Run this job, if its row says that it may be run."""
        with self._making:
            if self._runner is None:
                self._runner = self._make_runner()
        if _is_id(job_id):
            before(Failpoint.MESSAGE_ACCEPT)
            self._runner.run(job_id)
            after(Failpoint.MESSAGE_ACCEPT)


def handing_over_to(accept: Accept) -> type[Consumer]:
    """Celery's consumer, but the id in a message is accepted where it arrives, whatever task the message names.

    Who else writes to these lists of Redis does no harm: what names no job is dropped with a line in the log, and
    whether a job that is named may run is decided by its row. One of a later release's kind the runner leaves to a
    worker that knows it.
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
    """Return whether this may be a job's id; what is none is logged."""
    if type(job_id) is int and 0 < job_id <= LARGEST_ID:
        return True
    log.warning("message_dropped", why=f"{str(job_id)[:100]!r} is no job's id")
    return False
