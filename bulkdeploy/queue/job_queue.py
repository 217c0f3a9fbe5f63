"""The courier between the API and the workers: names of queues, and what is sent.

A message carries a job's id and nothing else; what is true is in the database. Losing a message
delays its job until the sweeper sends it again; a message that arrives twice finds the lease taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bulkdeploy.domain.jobs import JobKind

INTERACTIVE = "jobs.interactive"
"""Single deployments and everything a person waits for."""

BULK_LANES = 4
BULK = tuple(f"jobs.bulk.{lane}" for lane in range(BULK_LANES))
"""Bulk deployments; one deployment stays in one lane, so a lane's long batch delays only that lane."""

ALL_QUEUES = (INTERACTIVE, *BULK)


def bulk_queue(deployment_id: int) -> str:
    """The lane of a bulk deployment."""
    return BULK[deployment_id % BULK_LANES]


@dataclass(frozen=True, slots=True)
class JobMessage:
    """One job to run: its internal id, its kind (the task's name) and the queue it goes to."""

    job_id: int
    kind: JobKind
    queue: str


class JobQueue(Protocol):
    """Sends messages. Sending is best effort: the outbox remembers what was not sent."""

    def send(self, messages: Sequence[JobMessage]) -> None:
        """Send all messages, pipelined.

        Raises:
            QueueUnavailable: some may not have been sent; sending them again is harmless.
        """

    def waiting(self) -> Mapping[str, int]:
        """How many messages wait in each queue of ALL_QUEUES.

        Raises:
            QueueUnavailable: the courier does not answer.
        """


class QueueUnavailable(Exception):
    """The courier does not answer."""
