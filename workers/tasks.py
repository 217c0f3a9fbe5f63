"""What a worker does with a message: the job's id in it is handed to the runner, whatever kind of job it is.

A message names a task per kind of job (``queue.celery_queue.task_name``) and carries an id. Celery's own handling
makes a request, a context, a trace and a result of it, for tasks that may fail, return something or be revoked, and
throws away a task that it does not know. What became of a job stands in its row, and its kind, too; one of a later
release's kind the runner leaves to a worker that knows it.
"""

from collections.abc import Callable
from typing import Any

import structlog
from celery.worker.consumer import Consumer
from kombu.exceptions import ContentDisallowed, DecodeError

log = structlog.get_logger(__name__)

Accept = Callable[[int], None]
"""Returns as soon as the job is in hand, so a worker's one consuming thread takes the next message while drivers
work; blocks while too many jobs are open, so messages stay in Redis for other workers."""

LARGEST_ID = 2**63 - 1


def handing_over_to(accept: Accept) -> type[Consumer]:
    """Celery's consumer, but the id in a message is accepted where it arrives.

    Who else writes to these lists of Redis does no harm: what names no job is dropped with a line in the log, and
    whether a job that is named may run is decided by its row.
    """

    class HandingOver(Consumer):
        def create_task_handler(self, *_: Any, **__: Any) -> Callable[[Any], None]:
            """What Celery calls with each message."""
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
    if type(job_id) is not int or not 0 < job_id <= LARGEST_ID:
        log.warning("message_dropped", why=f"{str(job_id)[:100]!r} is no job's id")
        return
    accept(job_id)
