"""Connecting to VNC servers: what is said to whom, and what is given up."""

import socket
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from bulkdeploy.drivers.vnc import VERSION, VncRefused, connect_to_vnc, new_password, response

CHALLENGE = bytes(range(16))
PASSWORD = "Sesame99"
OK, FAILED = bytes(4), bytes([0, 0, 0, 1])


def served(serve: Callable[[socket.socket], None]) -> int:
    """The port of a server that does this with its first client."""
    listening = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listening, listening.accept()[0] as client:
            serve(client)

    threading.Thread(target=run, daemon=True).start()
    return int(listening.getsockname()[1])


def with_password(expected: str) -> Callable[[socket.socket], None]:
    """A server that wants this password, and then says hello."""

    def serve(client: socket.socket) -> None:
        client.sendall(VERSION)
        assert client.recv(12) == VERSION
        client.sendall(bytes([2, 1, 2]))
        assert client.recv(1) == b"\x02"
        client.sendall(CHALLENGE)
        client.sendall((OK if client.recv(16) == response(expected, CHALLENGE) else FAILED) + b"hello")

    return serve


def test_the_cipher_is_that_of_vnc() -> None:
    """The key that all VNC password files are encrypted with is no secret, nor is what "password" becomes by it."""
    assert response("\x17Rk\x06#NX\x07", b"password") == bytes.fromhex("dbd83cfd727a1458")


def test_passwords_are_long_and_differ() -> None:
    """Eight letters, all of which count."""
    made = {new_password() for _ in range(100)}
    assert len(made) == 100
    assert {len(password) for password in made} == {8}


def test_the_password_opens_the_server() -> None:
    """What comes after the handshake is left to the caller."""
    port = served(with_password(PASSWORD))
    with closing(connect_to_vnc("127.0.0.1", port, PASSWORD, timeout_s=30)) as connected:
        assert connected.recv(5, socket.MSG_WAITALL) == b"hello"


def test_a_server_without_password_is_taken() -> None:
    """The operator's network may be all the protection there is."""

    def serve(client: socket.socket) -> None:
        client.sendall(VERSION)
        client.recv(12)
        client.sendall(bytes([1, 1]))
        client.recv(1)
        client.sendall(OK + b"hello")

    with closing(connect_to_vnc("127.0.0.1", served(serve), "", timeout_s=30)) as connected:
        assert connected.recv(5, socket.MSG_WAITALL) == b"hello"


@pytest.mark.parametrize(
    ("serve", "why"),
    [
        (with_password("another"), "rejects the password"),
        (lambda client: client.sendall(b"HTTP/1.1 400 Bad Request"), "not RFB 3.8"),
        (lambda client: client.sendall(b"RFB 003.003\n"), "not RFB 3.8"),
        (lambda client: client.sendall(VERSION + bytes([1, 19])), "security types"),
        (lambda client: client.close(), "closed the connection"),
    ],
)
def test_others_are_refused(serve: Callable[[socket.socket], None], why: str) -> None:
    """A wrong password, another protocol, an older version, another security type, nobody: each is said."""
    with pytest.raises(VncRefused, match=why):
        connect_to_vnc("127.0.0.1", served(serve), PASSWORD, timeout_s=30)
