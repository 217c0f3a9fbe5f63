"""The interface of the job queue between the API and the workers: queue names and messages.

A message contains only the id of a job; the state of the job is in the database. If a message is lost, the sweeper
sends it again later. If a message arrives twice, the second worker finds that the job is already leased.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

INTERACTIVE = "jobs.interactive"
"""The queue for single deployments and for all other jobs that a person waits for."""

QUEUE_SIZES = (100, 1_000, 10_000)
BULK = tuple(f"jobs.bulk.{queue_number}" for queue_number in range(len(QUEUE_SIZES) + 1))
"""The queues for bulk deployments by number of VMs: up to each of QUEUE_SIZES, and more.

Workers take messages from all queues in turn. So a deployment waits for others of its own size, and not for one
that is ten times as large.
"""

PACED = BULK[-1]
"""The queue for jobs of bulk operations that are released little by little."""

ALL_QUEUES = (INTERACTIVE, *BULK)


def bulk_queue(vms: int) -> str:
    """Return the queue for the jobs of a bulk deployment with this number of VMs."""
    return BULK[bisect_left(QUEUE_SIZES, vms)]


class JobMessage(NamedTuple):
    """A message about one job.

    Attributes:
        job_id: the internal id of the job.
        kind: the kind of the job, which may be one of a newer release.
        queue: the name of the queue.
    """

    job_id: int
    kind: str
    queue: str


class JobQueue(Protocol):
    """Sends messages about jobs. Unsent messages are in the outbox, so a failure loses none."""

    def send(self, messages: Sequence[JobMessage]) -> None:
        """Send all messages, in few round trips.

        Messages of one queue arrive in the given order.

        Raises:
            QueueUnavailable: some messages may not have been sent; sending them again does no harm.
        """

    def waiting(self) -> Mapping[str, int]:
        """Return the number of waiting messages in each queue of ALL_QUEUES.

        Raises:
            QueueUnavailable: the message broker does not answer.
        """


class QueueUnavailable(Exception):
    """The message broker does not answer."""
