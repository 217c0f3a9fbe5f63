"""A VNC server that asks for a password (RFC 6143, section 7), as far as the name of its screen."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from bulkdeploy.drivers.vnc import VERSION, response

CHALLENGE = bytes(range(16))
OK, FAILED = bytes(4), bytes([0, 0, 0, 1])
PIXELS = bytes(16)


@contextmanager
def vnc_server(password: str, name: Callable[[], str]) -> Iterator[int]:
    """Its port, while it serves; each client is told the name that the screen has then."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.sendall(VERSION)
            client.recv(len(VERSION), socket.MSG_WAITALL)
            client.sendall(bytes([1, 2]))
            client.recv(1)
            client.sendall(CHALLENGE)
            proof = client.recv(16, socket.MSG_WAITALL)
            client.sendall(OK if proof == response(password, CHALLENGE) else FAILED)
            if client.recv(1):
                shown = name().encode()
                client.sendall(struct.pack(">HH", 64, 48) + PIXELS + struct.pack(">I", len(shown)) + shown)
                client.recv(1)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
