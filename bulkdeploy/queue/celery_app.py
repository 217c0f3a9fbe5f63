"""The Celery application of workers, without its tasks."""

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
"""Socket options with which a broken connection is noticed after 25 to 30 s instead of hours.

A consumer only receives, so it would not notice a broken connection otherwise.
"""


CONFIGURATION: dict[str, Any] = {
    "accept_content": ["json"],
    "task_serializer": "json",
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_transport_options": {
        "ack_emulation": False,
        "queue_order_strategy": "round_robin",
        # One Redis list per queue. With kombu's four priorities, each BRPOP would name 20 lists, not 5.
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
"""Celery's configuration.

Acknowledgements are not emulated, because that would need two thirds of Celery's CPU time per task. Lost messages
are sent again by the sweeper, because the database stores all jobs. There is no result backend, because the rows of
jobs store the results.
"""


def make_celery(redis_url: Callable[[], str]) -> Celery:
    """Return a Celery application without tasks, which can receive and send messages.

    ``redis_url`` is called at first use, so an application can be created without settings.
    """
    app = Celery("bulkdeploy", set_as_current=False)

    def configure(**_: Any) -> None:
        url, options = celery_broker(redis_url())
        transport = {**CONFIGURATION["broker_transport_options"], **options}
        app.config_from_object({**CONFIGURATION, "broker_url": url, "broker_transport_options": transport})

    app.on_configure.connect(configure, weak=False)
    return app
