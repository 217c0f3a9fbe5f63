"""The relay, which sends the messages that were not sent after the commit of their transaction."""

from sqlalchemy import Connection, Engine

from bulkdeploy.processes.failpoints import Failpoint, after, before
from bulkdeploy.queue.job_queue import JobMessage, JobQueue
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.jobs.outbox import forget_sent, take_unsent

MESSAGES_AT_ONCE = 1000
MOST_TURNS = 100
GRACE_S = 1.0
"""The process that wrote an outbox row sends it itself, usually within this time."""


class Relay:
    """A sender of the messages in the outbox table. Several relays may run at once; row locks divide the work.

    Args:
        engine: the database.
        job_queue: the message broker.
        grace_s: the age in seconds below which a message is left to the process that wrote it.
    """

    def __init__(self, engine: Engine, job_queue: JobQueue, *, grace_s: float = GRACE_S) -> None:
        self._engine, self._job_queue, self._grace_s = engine, job_queue, grace_s

    def send_unsent(self) -> int:
        """Send the due messages, at most MOST_TURNS times MESSAGES_AT_ONCE, and return their number.

        A message is sent while its row is locked, and its row is deleted afterwards. If the process dies in
        between, the message is sent again.

        Raises:
            QueueUnavailable: the message broker does not answer. The messages remain in the outbox.
        """
        total = 0
        for _ in range(MOST_TURNS):
            sent = run_transaction(self._engine, self._send_some, Failpoint.RELAY_COMMIT)
            total += sent
            if sent < MESSAGES_AT_ONCE:
                break
        return total

    def _send_some(self, connection: Connection) -> int:
        unsent = take_unsent(connection, older_than_s=self._grace_s, most=MESSAGES_AT_ONCE)
        if unsent:
            before(Failpoint.RELAY_PUBLISH)
            self._job_queue.send([JobMessage(entry.job_id, entry.kind, entry.queue) for entry in unsent])
            after(Failpoint.RELAY_PUBLISH)
            forget_sent(connection, [entry.job_id for entry in unsent])
        return len(unsent)
