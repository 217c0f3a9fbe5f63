"""Conversion of a hypervisor's console stream to a connected socket."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 64 * 1024


def as_socket(
    read: Callable[[], bytes],
    write: Callable[[bytes], object],
    close: Callable[[], object],
    broken: type[Exception],
) -> socket.socket:
    """Return a socket that is connected to a stream.

    Two threads copy the bytes in both directions until one side ends.

    Args:
        read: waits for output of the stream and returns it. An empty result means that the stream has ended.
        write: writes all of its argument to the stream.
        close: closes the stream. It is called once.
        broken: the exception that these three functions raise if the stream has ended.
    """
    ours, theirs = socket.socketpair()

    def speak() -> None:
        with suppress(broken, OSError):
            while data := read():
                ours.sendall(data)
        with suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)

    def listen() -> None:
        with suppress(broken, OSError):
            while data := ours.recv(CHUNK_BYTES):
                write(data)
        with suppress(broken, OSError):
            close()
        ours.close()

    for work in (speak, listen):
        threading.Thread(target=work, name=f"console-{work.__name__}", daemon=True).start()
    return theirs
