"""Websockets to a cluster, for consoles and events."""

import socket
import ssl
from contextlib import ExitStack
from urllib.parse import urlsplit

from urllib3.exceptions import SSLError
from urllib3.util.ssl_ import assert_fingerprint
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.incus.rest import Access

HTTPS_PORT = 443
CLOSE_S = 2.0


def open_websocket(access: Access, path: str, *, timeout_s: float) -> ClientConnection:
    """Open a websocket at the first member that answers within ``timeout_s``.

    Members forward requests.

    The websocket may be silent for any time. It breaks if the member does not answer its pings for 20 s.

    Raises:
        NotAnswered: no member answered.
    """
    reasons = []
    for url in access.urls:
        with ExitStack() as stack:
            try:
                websocket = stack.enter_context(_open(_reach(access, url, timeout_s), path, timeout_s))
            except (OSError, SSLError, WebSocketException) as error:
                reasons.append(f"{url}: {error}")
                continue
            stack.pop_all()  # from now on the caller must close the socket
            return websocket
    raise NotAnswered("; ".join(reasons))


def _open(connected: socket.socket, path: str, timeout_s: float) -> ClientConnection:
    """Open a websocket on an existing connection, which is already encrypted if necessary."""
    return connect(
        f"ws://incus{path}",
        sock=connected,
        open_timeout=timeout_s,
        close_timeout=CLOSE_S,
        compression=None,
        max_size=None,
    )


def _reach(access: Access, url: str, timeout_s: float) -> socket.socket:
    """Connect to a member, and check that its certificate is valid."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(timeout_s)
            connected.connect(parts.path)
        except OSError:
            connected.close()
            raise
    else:
        connected = _encrypted(access, parts.hostname or "", parts.port or HTTPS_PORT, timeout_s)
    connected.settimeout(None)
    return connected


def _encrypted(access: Access, host: str, port: int, timeout_s: float) -> socket.socket:
    context = ssl.create_default_context(cafile=access.ca_file)
    if access.fingerprint is not None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if access.client is not None:
        context.load_cert_chain(*access.client)
    plain = socket.create_connection((host, port), timeout=timeout_s)
    try:
        encrypted = context.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise
    if access.fingerprint is not None:
        try:
            assert_fingerprint(encrypted.getpeercert(binary_form=True), access.fingerprint)
        except SSLError:
            encrypted.close()
            raise
    return encrypted
