"""Celery tasks: one per kind of job, each as thin as can be: a job's id in, handed to the runner."""

from collections.abc import Callable

from celery import Celery

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
