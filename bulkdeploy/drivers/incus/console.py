"""Serial consoles of Incus's instances, over the websocket of an operation.

Source: Incus's doc/rest-api.yaml, version 6.0. A console is an operation with one websocket for its bytes and one
for its size, each opened with a secret. The driver does not use the second.
"""

import socket
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection

from bulkdeploy.drivers.exchanges.streams import as_socket
from bulkdeploy.drivers.incus.rest import Access, path_of
from bulkdeploy.drivers.incus.websocket import open_websocket

CONSOLE = {"type": "console", "width": 80, "height": 25, "force": True}
"""The request for a console. With ``force``, members newer than 6.0 close a console that is already open."""

BYTES = "0"


def open_serial(access: Access, operation: Mapping[str, Any], *, timeout_s: float) -> socket.socket:
    """Connect to the console that an operation has begun.

    Raises:
        NotAnswered: no member answers.
    """
    secret = operation["metadata"]["fds"][BYTES]
    path = f"{path_of('operations', operation['id'], 'websocket')}?{urlencode({'secret': secret})}"
    websocket = open_websocket(access, path, timeout_s=timeout_s)
    return as_socket(partial(_read, websocket), websocket.send, websocket.close, WebSocketException)


def _read(websocket: ClientConnection) -> bytes:
    """Return the next output of the guest, or no bytes after the text message that marks the end."""
    while isinstance(message := websocket.recv(), bytes):
        if message:
            return message
    return b""
