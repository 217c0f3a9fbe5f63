"""Sending jobs after the transaction that made them, as well as can be."""

from collections.abc import Sequence

import structlog

from bulkdeploy.queue.job_queue import JobMessage, QueueUnavailable
from bulkdeploy.services.system import System
from bulkdeploy.store.outbox import forget_sent

log = structlog.get_logger(__name__)


def send_jobs(system: System, messages: Sequence[JobMessage]) -> None:
    """Send; what the courier does not take stays in the outbox, and the sweeper sends it."""
    try:
        system.job_queue.send(messages)
    except QueueUnavailable as error:
        log.warning("jobs_not_sent", jobs=len(messages), why=str(error))
        return
    with system.engine.begin() as connection:
        forget_sent(connection, [message.job_id for message in messages])
