"""A Celery worker as anybody would write it, for tests: it notes the arguments of each task in Redis.

Usage: python echo_worker.py REDIS_URL QUEUE...
"""

import sys

from celery import Celery
from redis import Redis

from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.queue.celery_queue import task_name


def main(redis_url: str, *queues: str) -> None:
    """Consume ``queues`` with Celery's default settings."""
    app = Celery("echo", broker=redis_url)
    notes = Redis.from_url(redis_url)

    def note(task, *args, **kwargs):  # type: ignore[no-untyped-def]
        notes.rpush("notes", f"{task.name} {task.request.id} {args!r} {kwargs!r} {task.request.delivery_info}")

    for kind in job_kinds():
        app.task(name=task_name(kind), bind=True)(note)
    app.worker_main(["worker", "--pool=solo", "--loglevel=WARNING", "-Q", ",".join(queues)])


if __name__ == "__main__":
    main(*sys.argv[1:])
