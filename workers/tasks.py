"""Celery tasks: one per kind of job, each as thin as can be: a job's id in, handed to the runner."""

from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.worker.consumer import Consumer

from bulkdeploy.domain.jobs import JobKind
from bulkdeploy.queue.celery_queue import task_name


def add_tasks(app: Celery, accept: Callable[[int], None]) -> None:
    """Give ``app`` its tasks.

    ``accept`` returns as soon as the job is in hand, so a worker's one consuming thread takes the next
    message while drivers work; it blocks while too many jobs are open, so messages stay in Redis for other
    workers.
    """
    for kind in JobKind:
        app.task(name=task_name(kind), ignore_result=True, typing=False)(accept)


def leaving_unknown_tasks(accept: Callable[[int], None]) -> type[Consumer]:
    """Celery's consumer, but a task that a later release sent is not thrown away.

    ``accept`` finds that this release does not know the job's kind, and has it sent again for another worker.
    """

    class LeavingConsumer(Consumer):
        def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
            """Hand the job's id over as if the task were known."""
            del body, exc
            (job_id, *_), *_ = message.payload
            message.ack()
            accept(job_id)

    return LeavingConsumer
