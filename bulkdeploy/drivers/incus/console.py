"""Serial consoles of Incus's instances, over the websocket of an operation.

Source: Incus's doc/rest-api.yaml, version 6.0: a console is an operation with one websocket for its bytes and one
for its size, each opened by a secret. Nobody needs the second.
"""

import socket
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

from urllib3.exceptions import SSLError
from urllib3.util.ssl_ import assert_fingerprint
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from bulkdeploy.drivers.cluster_http import NotAnswered
from bulkdeploy.drivers.incus.rest import Access, path_of
from bulkdeploy.drivers.streams import as_socket

CONSOLE = {"type": "console", "width": 80, "height": 25, "force": True}
"""``force``: members newer than 6.0 close a console that is open already."""

BYTES = "0"
HTTPS_PORT = 443
CLOSE_S = 2.0


def open_serial(access: Access, operation: Mapping[str, Any], *, timeout_s: float) -> socket.socket:
    """Connect to the console that an operation has begun, at the first member that answers; others pass it on.

    Raises:
        NotAnswered: none does.
    """
    secret = operation["metadata"]["fds"][BYTES]
    path = f"{path_of('operations', operation['id'], 'websocket')}?{urlencode({'secret': secret})}"
    reasons = []
    for url in access.urls:
        with ExitStack() as stack:
            try:
                connected = stack.enter_context(_reach(access, url, timeout_s))
                websocket = stack.enter_context(_open(connected, path, timeout_s))
            except (OSError, SSLError, WebSocketException) as error:
                reasons.append(f"{url}: {error}")
                continue
            end = stack.pop_all().close
            return as_socket(partial(_read, websocket), websocket.send, end, WebSocketException)
    raise NotAnswered("; ".join(reasons))


def _open(connected: socket.socket, path: str, timeout_s: float) -> ClientConnection:
    """A websocket on a connection that is encrypted already, where it is."""
    return connect(
        f"ws://incus{path}",
        sock=connected,
        open_timeout=timeout_s,
        close_timeout=CLOSE_S,
        compression=None,
        max_size=None,
    )


def _reach(access: Access, url: str, timeout_s: float) -> socket.socket:
    """A connection to a member whose certificate is the cluster's."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(timeout_s)
        connected.connect(parts.path)
        return connected
    context = ssl.create_default_context(cafile=access.ca_file)
    if access.fingerprint is not None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if access.client is not None:
        context.load_cert_chain(*access.client)
    plain = socket.create_connection((parts.hostname or "", parts.port or HTTPS_PORT), timeout=timeout_s)
    encrypted = context.wrap_socket(plain, server_hostname=parts.hostname)
    if access.fingerprint is not None:
        try:
            assert_fingerprint(encrypted.getpeercert(binary_form=True), access.fingerprint)
        except SSLError:
            encrypted.close()
            raise
    return encrypted


def _read(websocket: ClientConnection) -> bytes:
    """What the guest writes; a message of text says that it has ended."""
    while isinstance(message := websocket.recv(), bytes):
        if message:
            return message
    return b""
