"""Sending jobs after the transaction that made them, as well as can be."""

from collections.abc import Sequence
from functools import partial

import structlog

from bulkdeploy.crash_points import CrashPoint, after, before
from bulkdeploy.domain.errors import ConflictRetriesExhausted
from bulkdeploy.queue.job_queue import JobMessage, QueueUnavailable
from bulkdeploy.services.system import System
from bulkdeploy.store.availability import is_unreachable
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.outbox import forget_sent

log = structlog.get_logger(__name__)


def send_jobs(system: System, messages: Sequence[JobMessage]) -> None:
    """Send; what the courier does not take stays in the outbox, and the sweeper sends it.

    The call that made the jobs has done its work and must not be answered with an error any more; sending
    twice is harmless.
    """
    if not messages:
        return
    before(CrashPoint.CALL_PUBLISH)
    try:
        system.job_queue.send(messages)
    except QueueUnavailable as error:
        log.warning("jobs_not_sent", jobs=len(messages), why=str(error))
        return
    after(CrashPoint.CALL_PUBLISH)
    clear = partial(forget_sent, job_ids=[message.job_id for message in messages])
    try:
        run_transaction(system.engine, clear, CrashPoint.CALL_CLEAR)
    except Exception as error:
        if not (is_unreachable(error) or isinstance(error, ConflictRetriesExhausted)):
            raise
        log.warning("outbox_not_cleared", jobs=len(messages), why=str(error).splitlines()[0])
