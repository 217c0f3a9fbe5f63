"""Connections as only strangers make them: half requests, slow ones, and answers that nobody reads."""

import re
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.runs.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True)
class RawConnection:
    """One connection, and what comes on it."""

    socket: socket.socket

    def send(self, data: bytes) -> bool:
        """Send; False: the server hung up."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def rest(self) -> bytes:
        """All that comes until the server hangs up."""
        received = b""
        try:
            while part := self.socket.recv(65536):
                received += part
        except ConnectionError:
            pass
        return received

    def answer(self) -> bytes:
        """One whole answer; nothing where the server hangs up."""
        received = b""
        while (part := self.socket.recv(65536)) and not _is_whole(received := received + part):
            pass
        return received

    def hears(self) -> bool:
        """Whether an answer, or the end, has come by now."""
        return bool(select.select([self.socket], [], [], 0)[0])


@contextmanager
def connected(url: str, count: int = 1, source: str = "127.0.0.1") -> Iterator[list[RawConnection]]:
    """So many connections from an address of the loopback network; closed in the end."""
    parts = urlsplit(url)
    with ExitStack() as opened:
        made = []
        for _ in range(count):
            link = socket.create_connection((parts.hostname, parts.port), PATIENCE_S, (source, 0))
            made.append(RawConnection(opened.enter_context(link)))
        yield made


def _is_whole(received: bytes) -> bool:
    head, found, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head.lower())
    return bool(found) and (length is None or len(body) >= int(length[1]))
