"""Celery tasks: one per kind of job, each as thin as can be: a job's id in, handed to the runner."""

from collections.abc import Callable
from typing import Any

import structlog
from celery import Celery
from celery.worker.consumer import Consumer
from kombu.exceptions import ContentDisallowed, DecodeError

from bulkdeploy.domain.jobs import JobKind
from bulkdeploy.queue.celery_queue import task_name

log = structlog.get_logger(__name__)

Accept = Callable[[int], None]
"""Returns as soon as the job is in hand, so a worker's one consuming thread takes the next message while drivers
work; blocks while too many jobs are open, so messages stay in Redis for other workers."""


def add_tasks(app: Celery, accept: Accept) -> None:
    """Give ``app`` its tasks.

    Their execution strategy, Celery's own hook, hands the id over where the message arrives. The default one makes
    a request, a context, a trace and a result of each message, for tasks that may fail, return or be revoked; that
    costs as much as receiving it, and a job's row knows all of that.
    """

    def strategy(*_: Any, **__: Any) -> Callable[..., None]:
        return lambda message, *_: _hand_over(message, accept)

    for kind in JobKind:
        app.task(name=task_name(kind), ignore_result=True, typing=False, Strategy=staticmethod(strategy))(accept)


def leaving_unknown_tasks(accept: Accept) -> type[Consumer]:
    """Celery's consumer, but a task that a later release sent is not thrown away.

    ``accept`` finds that this release does not know the job's kind, and has it sent again for another worker.
    """

    class LeavingConsumer(Consumer):
        def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
            """Hand the job's id over as if the task were known."""
            del body, exc
            _hand_over(message, accept)

    return LeavingConsumer


def _hand_over(message: Any, accept: Accept) -> None:
    """Accept the job that the message names; one that names none was sent by a stranger, and is dropped."""
    message.ack()
    try:
        arguments, *_ = message.payload
        (job_id, *_) = arguments
    except (ContentDisallowed, DecodeError, TypeError, ValueError) as error:
        log.warning("message_dropped", task=message.headers["task"], why=str(error))
        return
    if type(job_id) is not int:
        log.warning("message_dropped", task=message.headers["task"], why=f"{job_id!r} is no job's id")
        return
    accept(job_id)
