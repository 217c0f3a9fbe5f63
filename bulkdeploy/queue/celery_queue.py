"""The job queue on Redis (or Valkey), whose messages have Celery's format.

Sending through Celery needs a round trip and about a millisecond of CPU time per message, and a bulk call sends
tens of thousands. So this module writes the messages itself, many per command, in the format of kombu's Redis
transport (Celery's "Message Protocol", version 2). Any Celery worker can read them; ``tests/queue`` compares them
with Celery's.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from uuid import uuid4

from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from bulkdeploy.queue.job_queue import ALL_QUEUES, JobMessage, QueueUnavailable
from bulkdeploy.queue.redis_servers import redis_client

CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 5.0
MESSAGES_PER_COMMAND = 1000
"""The most messages in one LPUSH, which then keeps Redis busy for about a millisecond."""


def task_name(kind: str) -> str:
    """Return the name of the Celery task that runs jobs of this kind."""
    return f"bulkdeploy.{kind}"


class CeleryJobQueue:
    """A JobQueue whose messages Celery workers can read.

    Threads may share it.

    Args:
        redis_url: the URL of a Redis server, or of Sentinels (queue/redis_servers.py).
    """

    def __init__(self, redis_url: str) -> None:
        self._redis = redis_client(
            redis_url,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=ANSWER_TIMEOUT_S,
            retry=Retry(NoBackoff(), retries=1),
        )
        self._envelopes: dict[str, _Envelope] = {}

    def send(self, messages: Sequence[JobMessage]) -> None:
        """Send all messages in one pipeline. Messages of one queue arrive in the given order."""
        by_queue: dict[str, list[JobMessage]] = defaultdict(list)
        for message in messages:
            by_queue[message.queue].append(message)
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                for queue, its_messages in by_queue.items():
                    for chunk in _chunks(its_messages, MESSAGES_PER_COMMAND):
                        pipeline.lpush(queue, *self._encoded(chunk))
                pipeline.execute()
        except (RedisError, OSError) as error:
            raise QueueUnavailable(f"Redis did not take {len(messages)} message(s): {error}") from error

    def waiting(self) -> Mapping[str, int]:
        """Return the number of waiting messages in each queue."""
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                for queue in ALL_QUEUES:
                    pipeline.llen(queue)
                return dict(zip(ALL_QUEUES, pipeline.execute(), strict=True))
        except (RedisError, OSError) as error:
            raise QueueUnavailable(f"the number of waiting messages cannot be read from Redis: {error}") from error

    def close(self) -> None:
        """Close the connections to Redis."""
        self._redis.close()

    def _encoded(self, messages: Iterable[JobMessage]) -> Iterator[str]:
        nonce = uuid4().hex
        for message in messages:
            envelope = self._envelopes.get(message.kind)
            if envelope is None:
                envelope = self._envelopes[message.kind] = _Envelope(task_name(message.kind))
            yield envelope.message(message.job_id, message.queue, nonce)


class _Envelope:
    """The template of one task's messages, which differ only in job id, queue and delivery tag.

    The id of the Celery task is derived from the job's id, so a message that is sent twice has one task id in
    Celery's logs. The delivery tag must be unique among the messages of one worker.
    """

    def __init__(self, task: str) -> None:
        body = json.dumps([["{job}"], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
        whole = {
            "body": body.replace('"{job}"', "{job}"),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"lang": "py", "task": task, "id": "{id}", "root_id": "{id}", "retries": 0},
            "properties": {
                "correlation_id": "{id}",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": "{queue}"},
                "priority": 0,
                "delivery_tag": "{tag}",
            },
        }
        pieces = json.dumps(whole, separators=(",", ":"))
        for mark in ("job", "id", "queue", "tag"):
            pieces = pieces.replace("{" + mark + "}", f"%({mark})s")
        self._template = pieces

    def message(self, job_id: int, queue: str, nonce: str) -> str:
        """Return a message as the JSON text that kombu would write."""
        return self._template % {"job": job_id, "id": f"job-{job_id}", "queue": queue, "tag": f"{job_id}-{nonce}"}


def _chunks(messages: Sequence[JobMessage], size: int) -> Iterator[tuple[JobMessage, ...]]:
    iterator = iter(messages)
    while chunk := tuple(islice(iterator, size)):
        yield chunk
