"""The outbox: jobs whose messages may not have been sent yet.

A row is written in the same transaction as its job, and deleted after the message was sent. If the process dies in
between, the sweeper sends the message. A message that is sent twice does no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from bulkdeploy.store.database.arrays import int_array


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message that must be sent. ``kind`` may be unknown to this release and known to another worker."""

    job_id: int
    kind: str
    queue: str


@dataclass(frozen=True, slots=True)
class JobQueues:
    """The names of the job queues: one for interactive calls, and several for bulk deployments by their size.

    ``sizes[i]`` is the largest number of VMs of a deployment in queue i. The last queue has no limit.
    """

    interactive: str
    bulk: Sequence[str]
    sizes: Sequence[int]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statement ``TO_OUTBOX``."""
        return {
            "interactive": self.interactive,
            "job_queues": list(self.bulk),
            "bounds": [size + 1 for size in self.sizes],
        }


QUEUE_OF_AGAIN = (
    "CASE WHEN d.bulk THEN (CAST(:job_queues AS text[]))[1 + width_bucket(d.vm_count, CAST(:bounds AS integer[]))]"
    " ELSE :interactive END"
)
"""The queue of job ``again``, joined with its deployment ``d``."""

TO_OUTBOX = (
    " INSERT INTO outbox (job_id, queue, kind, created)"
    " SELECT again.id, $queue, again.kind, now() + make_interval(secs => :after)"
    " FROM again LEFT JOIN LATERAL"
    "   (SELECT bulk, vm_count FROM deployments WHERE id = again.deployment_id LIMIT 1) AS d ON true"
    " ON CONFLICT (job_id) DO UPDATE SET created = excluded.created".replace("$queue", QUEUE_OF_AGAIN)
)
"""Ends a statement that has the jobs ``again`` (id, kind, deployment_id): they are to be sent ``after`` seconds.

``LIMIT`` has deployments looked up one by one: a plan that was kept since there were few would read all of them.
"""


_TAKE = text(
    "SELECT job_id, kind, queue FROM outbox WHERE (created <= now() - make_interval(secs => :age)"
    "   OR created > now() + interval '1 minute')"
    " ORDER BY job_id LIMIT :most FOR UPDATE SKIP LOCKED"
)


def take_unsent(connection: Connection, *, older_than_s: float, most: int) -> list[Unsent]:
    """Lock and return unsent messages, those of the oldest jobs first.

    No other sweeper gets these messages until the transaction ends.
    """
    rows = connection.execute(_TAKE, {"age": older_than_s, "most": most})
    return [Unsent(row.job_id, row.kind, row.queue) for row in rows]


_FORGET = text(
    "DELETE FROM outbox USING (SELECT set_config('synchronous_commit', 'off', true)) AS hurried"
    " WHERE job_id = ANY(CAST(:ids AS bigint[]))"
)
"""Its transaction need not reach the disk before its answer: an entry that comes back is sent once more."""


def forget_sent(connection: Connection, job_ids: Sequence[int]) -> None:
    """Delete the entries of messages that were sent. The transaction must do nothing else."""
    connection.execute(_FORGET, {"ids": int_array(job_ids)})
