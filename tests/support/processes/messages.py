"""Messages that wait in Redis, as tests take them."""

from typing import Any, cast

import orjson
from redis import Redis


def take_messages(redis: Redis, queue: str, most: int = 100_000) -> list[dict[str, Any]]:
    """The messages at the front of a queue, oldest first; they are gone from it."""
    taken = cast("list[bytes] | None", redis.rpop(queue, most))
    return [orjson.loads(message) for message in taken or []]


def job_of(message: dict[str, Any]) -> int:
    """The id of the job that a message names."""
    return int(orjson.loads(message["body"])[0][0])
