"""The interface of the message broker between the API and the workers: queue names and messages.

A message carries a job's id and nothing else; what is true is in the database. Losing a message
delays its job until the sweeper sends it again; a message that arrives twice finds the lease taken.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

INTERACTIVE = "jobs.interactive"
"""Single deployments and everything a person waits for."""

QUEUE_SIZES = (100, 1_000, 10_000)
BULK = tuple(f"jobs.bulk.{queue_number}" for queue_number in range(len(QUEUE_SIZES) + 1))
"""Bulk deployments by how many VMs they have: at most so many, the last queue the rest.

Workers take from all job_queues in turn, so a deployment waits for others of its own size and never for a batch ten
times as large; and no queue starves.
"""

PACED = BULK[-1]
"""Jobs of bulk operations that were held at first: nobody waits for a single one of them."""

ALL_QUEUES = (INTERACTIVE, *BULK)


def bulk_queue(vms: int) -> str:
    """Return the queue for the jobs of a bulk deployment with this number of VMs."""
    return BULK[bisect_left(QUEUE_SIZES, vms)]


class JobMessage(NamedTuple):
    """A message about one job: its internal id, its kind (the name of the task) and its queue.

    The kind can be one of a newer release.
    """

    job_id: int
    kind: str
    queue: str


class JobQueue(Protocol):
    """A sender of job messages. Sending is best effort, because unsent messages stay in the outbox."""

    def send(self, messages: Sequence[JobMessage]) -> None:
        """Send all messages with few round trips. Messages of one queue arrive in the given order.

        Raises:
            QueueUnavailable: some may not have been sent; sending them again is harmless.
        """

    def waiting(self) -> Mapping[str, int]:
        """Return how many messages wait in each queue of ALL_QUEUES.

        Raises:
            QueueUnavailable: the message broker does not answer.
        """


class QueueUnavailable(Exception):
    """The message broker does not answer."""
