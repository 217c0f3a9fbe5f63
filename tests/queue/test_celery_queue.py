import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.queue.celery_app import make_celery
from bulkdeploy.queue.celery_queue import MESSAGES_PER_COMMAND, CeleryJobQueue, task_name
from bulkdeploy.queue.job_queue import ALL_QUEUES, BULK, INTERACTIVE, JobMessage, QueueUnavailable
from tests.support.processes.messages import take_messages
from tests.support.runs.waiting import PATIENCE_S


@contextmanager
def _echo_worker(redis_url: str, queues: Sequence[str]) -> Iterator[None]:
    command = [sys.executable, str(Path(__file__).with_name("echo_worker.py")), redis_url, *queues]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def _notes_of(redis: Redis, count: int) -> list[str]:
    deadline = time.monotonic() + PATIENCE_S
    while redis.llen("notes") < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return [note.decode() for note in cast("list[bytes]", redis.lrange("notes", 0, -1))]


def _published_by_celery(redis_url: str, redis: Redis) -> dict[str, Any]:
    app = make_celery(lambda: redis_url)
    app.send_task(task_name(DEPLOY.name), args=(7,), queue=INTERACTIVE)
    app.close()
    (message,) = take_messages(redis, INTERACTIVE)
    return message


@pytest.mark.long
def test_an_unmodified_celery_worker_runs_what_is_sent(redis_database_url: str) -> None:
    """A worker with Celery's default settings runs each message's task, once, with the job's id."""
    queue = CeleryJobQueue(redis_database_url)
    redis = Redis.from_url(redis_database_url)
    sent = [JobMessage(number, kind, INTERACTIVE) for number, kind in enumerate(job_kinds(), start=40)]
    with _echo_worker(redis_database_url, [INTERACTIVE]):
        queue.send(sent)
        notes = _notes_of(redis, len(sent))
    expected = [f"{task_name(message.kind)} job-{message.job_id} ({message.job_id},) {{}}" for message in sent]
    assert [note.partition(" {'exchange'")[0] for note in notes] == expected
    assert redis.hlen("unacked") == 0


def test_messages_have_the_fields_of_celerys_own(redis_database_url: str) -> None:
    """Every field we write is one that Celery writes, in the same place and with the same type of value."""
    redis = Redis.from_url(redis_database_url)
    theirs = _published_by_celery(redis_database_url, redis)
    CeleryJobQueue(redis_database_url).send([JobMessage(7, DEPLOY.name, INTERACTIVE)])
    (ours,) = take_messages(redis, INTERACTIVE)
    assert set(ours) == set(theirs)
    assert ours["headers"].items() <= {**theirs["headers"], "id": "job-7", "root_id": "job-7"}.items()
    assert set(ours["properties"]) <= set(theirs["properties"])
    assert ours["properties"]["delivery_info"] == theirs["properties"]["delivery_info"]
    assert json.loads(ours["body"])[:2] == [[7], {}]


def test_order_is_kept_within_a_queue_and_queues_are_apart(redis_database_url: str) -> None:
    """What was given first is taken first, over several commands; each queue gets its own messages."""
    redis = Redis.from_url(redis_database_url)
    jobs = range(2 * MESSAGES_PER_COMMAND + 5)
    messages = [JobMessage(job, DEPLOY.name, BULK[job % 2]) for job in jobs]
    queue = CeleryJobQueue(redis_database_url)
    queue.send(messages)
    for queue_number in (0, 1):
        taken = [message["headers"]["id"] for message in take_messages(redis, BULK[queue_number])]
        assert taken == [f"job-{job}" for job in jobs if job % 2 == queue_number]
    assert redis.llen(INTERACTIVE) == 0


def test_every_message_has_its_own_delivery_tag(redis_database_url: str) -> None:
    """A message sent twice has two delivery tags, so that a consumer can tell the deliveries apart."""
    queue = CeleryJobQueue(redis_database_url)
    for _ in range(2):
        queue.send([JobMessage(1, STOP.name, INTERACTIVE), JobMessage(2, STOP.name, INTERACTIVE)])
    raw = Redis.from_url(redis_database_url).lrange(INTERACTIVE, 0, -1)
    assert len({json.loads(message)["properties"]["delivery_tag"] for message in raw}) == 4


def test_waiting_counts_each_queue(redis_database_url: str) -> None:
    """``waiting`` names every queue with the number of messages nobody has taken."""
    queue = CeleryJobQueue(redis_database_url)
    queue.send([JobMessage(job, DEPLOY.name, BULK[3]) for job in range(5)])
    assert queue.waiting() == {**dict.fromkeys(ALL_QUEUES, 0), BULK[3]: 5}


def test_nothing_to_send_is_fine(redis_database_url: str) -> None:
    """Sending no messages does nothing."""
    queue = CeleryJobQueue(redis_database_url)
    queue.send([])
    assert sum(queue.waiting().values()) == 0


def test_an_unreachable_courier_is_reported() -> None:
    """A closed port is QueueUnavailable, whatever was asked."""
    queue = CeleryJobQueue("redis://127.0.0.1:1/0")
    with pytest.raises(QueueUnavailable):
        queue.send([JobMessage(1, DEPLOY.name, INTERACTIVE)])
    with pytest.raises(QueueUnavailable):
        queue.waiting()
