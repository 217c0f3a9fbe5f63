"""The outbox: jobs whose message was, perhaps, not sent yet.

A row is written with its job, in one transaction, and deleted after the message was sent. Whoever dies in
between leaves it for the sweeper; a message sent twice is harmless.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from bulkdeploy.domain.jobs import JobKind
from bulkdeploy.store.arrays import int_array


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message to send."""

    job_id: int
    kind: JobKind
    queue: str


_TAKE = text(
    "SELECT job_id, kind, queue FROM outbox WHERE created <= now() - make_interval(secs => :age)"
    " ORDER BY created, job_id LIMIT :most FOR UPDATE SKIP LOCKED"
)


def take_unsent(connection: Connection, *, older_than_s: float, most: int) -> list[Unsent]:
    """The oldest unsent messages; until the transaction ends no other sweeper gets them."""
    rows = connection.execute(_TAKE, {"age": older_than_s, "most": most})
    return [Unsent(row.job_id, JobKind(row.kind), row.queue) for row in rows]


_FORGET = text("DELETE FROM outbox WHERE job_id = ANY(CAST(:ids AS bigint[]))")


def forget_sent(connection: Connection, job_ids: Sequence[int]) -> None:
    """Delete the entries of messages that were sent."""
    connection.execute(_FORGET, {"ids": int_array(job_ids)})
