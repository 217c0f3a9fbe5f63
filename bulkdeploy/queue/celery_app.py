"""The Celery application that workers run, without its tasks."""

import socket
from collections.abc import Callable
from typing import Any

from celery import Celery

from bulkdeploy.queue.celery_queue import CONNECT_TIMEOUT_S
from bulkdeploy.queue.job_queue import ALL_QUEUES
from bulkdeploy.queue.redis_servers import celery_broker

SILENCE_OPTIONS = {
    getattr(socket, name): value
    for name, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),
    )
    if hasattr(socket, name)
}
"""A line that is cut without a word is noticed after 25 to 30 s, not after hours: a consumer only listens."""


CONFIGURATION: dict[str, Any] = {
    "accept_content": ["json"],
    "task_serializer": "json",
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_transport_options": {
        "ack_emulation": False,
        "queue_order_strategy": "round_robin",
        # One list per queue: with kombu's four priorities each BRPOP names 20 lists, not 5.
        "priority_steps": [0],
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
        "socket_keepalive_options": SILENCE_OPTIONS,
    },
    "result_backend": None,
    "task_ignore_result": True,
    "task_store_errors_even_if_ignored": False,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "worker_prefetch_multiplier": 1,
    "task_queues": {name: {"exchange": name, "routing_key": name} for name in ALL_QUEUES},
    "task_default_queue": ALL_QUEUES[0],
    "timezone": "UTC",
}
"""Acknowledgements are not emulated: the emulation costs two thirds of Celery's CPU per task on Redis, and buys
redelivery that a worker killed between BRPOP and the note of it escapes anyway. What was asked is remembered in the
database, and the sweeper sends again what got lost. Results have no reader: job rows say what became of a job.
"""


def make_celery(redis_url: Callable[[], str]) -> Celery:
    """Return a Celery application without tasks that can consume and publish messages.

    The configuration is computed at first use, so importing an application needs no settings.
    """
    app = Celery("bulkdeploy", set_as_current=False)

    def configure(**_: Any) -> None:
        url, options = celery_broker(redis_url())
        transport = {**CONFIGURATION["broker_transport_options"], **options}
        app.config_from_object({**CONFIGURATION, "broker_url": url, "broker_transport_options": transport})

    app.on_configure.connect(configure, weak=False)
    return app
