"""The events of Incus about guests that end.

One websocket receives the events of the whole cluster.

A broken websocket is opened again, at most every RETRY_S seconds. Events in between are lost: events are only
hints, and regular queries of the hosts find all ended guests. Source: Incus's doc/events.md, version 6.0.
"""

import json
import math
import time
from contextlib import suppress
from threading import Lock, Thread
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection

from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.incus.instance import guest_of
from bulkdeploy.drivers.incus.rest import Access, path_of
from bulkdeploy.drivers.incus.websocket import open_websocket

RETRY_S = 10.0

ENDED = ("instance-shutdown", "instance-stopped")
"""The events of an instance that ended by itself, and of one that was stopped, also by this service."""


class GuestEvents:
    """A receiver of a cluster's events, which stores the guests that ended until ``ended`` is called.

    Threads may share the object.
    """

    def __init__(self, access: Access) -> None:
        self._access, self._lock = access, Lock()
        self._ended: set[UUID] = set()
        self._tried = -math.inf
        self._receiver: Thread | None = None
        self._websocket: ClientConnection | None = None
        self._is_closed = False

    def ended(self) -> frozenset[UUID]:
        """Return the guests that ended since the last call. The first call starts to receive events."""
        now = time.monotonic()
        with self._lock:
            is_receiving = self._receiver is not None and self._receiver.is_alive()
            if not is_receiving and now - self._tried > RETRY_S:
                self._tried = now
                self._receiver = Thread(target=self._receive, name="incus-events", daemon=True)
                self._receiver.start()
            ended, self._ended = frozenset(self._ended), set()
        return ended

    def _receive(self) -> None:
        """Store the reported ends of guests until the websocket breaks."""
        with (
            suppress(NotAnswered, WebSocketException),
            open_events(self._access, timeout_s=RETRY_S) as websocket,
        ):
            with self._lock:
                if self._is_closed:
                    return
                self._websocket = websocket
            for message in websocket:
                guest_uuid = _ended_guest(message)
                if guest_uuid is not None:
                    with self._lock:
                        self._ended.add(guest_uuid)

    def close(self) -> None:
        """Stop receiving events, and close the websocket."""
        with self._lock:
            self._is_closed, websocket = True, self._websocket
        if websocket is not None:
            websocket.close()


def open_events(access: Access, *, timeout_s: float) -> ClientConnection:
    """Open a websocket that reports the lifecycle events of the project.

    Raises:
        NotAnswered: no member answers.
    """
    query = urlencode({"type": "lifecycle", "project": access.project})
    return open_websocket(access, f"{path_of('events')}?{query}", timeout_s=timeout_s)


def _ended_guest(message: str | bytes) -> UUID | None:
    """Return the guest whose end an event reports, or None for any other event."""
    lifecycle = json.loads(message)["metadata"]
    if lifecycle["action"] not in ENDED:
        return None
    return guest_of(urlsplit(lifecycle["source"]).path.rpartition("/")[2])
