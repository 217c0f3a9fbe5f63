"""The security handshake of a VNC server with a password (RFC 6143). Later messages are not interpreted."""

import socket

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from bulkdeploy.security.random_texts import random_text

VERSION = b"RFB 003.008\n"
NO_SECURITY, VNC_SECURITY = 1, 2
PASSWORD_LETTERS = 8
"""The length of VNC passwords. Further characters are ignored, because a password is the key of a DES cipher."""


class VncRefused(Exception):
    """Raised if the server is not a VNC server of version 3.8, or does not accept the password."""


def new_password() -> str:
    """Return a random password of the greatest length."""
    return random_text(PASSWORD_LETTERS * 6 // 8)


def connect_to_vnc(address: str, port: int, password: str, *, timeout_s: float) -> socket.socket:
    """Connect to a VNC server, complete its security handshake, and return the connection.

    The client's ClientInit message is next on the connection.

    Raises:
        OSError: no server answered within ``timeout_s`` seconds.
        VncRefused: the server speaks another protocol, or rejects the password.
    """
    connected = socket.create_connection((address, port), timeout=timeout_s)
    try:
        _prove(connected, password)
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected


def _prove(connected: socket.socket, password: str) -> None:
    version = _receive(connected, len(VERSION))
    if not version.startswith(b"RFB 003.") or version < VERSION:
        raise VncRefused(f"the server speaks {version!r}, not RFB 3.8")
    connected.sendall(VERSION)
    offered = _receive(connected, _receive(connected, 1)[0])
    if VNC_SECURITY in offered:
        connected.sendall(bytes([VNC_SECURITY]))
        connected.sendall(response(password, _receive(connected, 16)))
    elif NO_SECURITY in offered:
        connected.sendall(bytes([NO_SECURITY]))
    else:
        raise VncRefused(f"the server offers the security types {list(offered)}, but not VNC authentication")
    if any(_receive(connected, 4)):
        raise VncRefused("the server rejects the password")


def response(password: str, challenge: bytes) -> bytes:
    """Return the response to a server's challenge: the challenge, encrypted with the password.

    The bits of each byte of the key are reversed, as VNC demands.
    """
    padded = password.encode("ascii")[:PASSWORD_LETTERS].ljust(PASSWORD_LETTERS, b"\0")
    key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in padded)
    encryptor = Cipher(TripleDES(key * 3), modes.ECB()).encryptor()  # noqa: S305 - the protocol's own
    return encryptor.update(challenge) + encryptor.finalize()


def _receive(connected: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = connected.recv(size - len(received))
        if not more:
            raise VncRefused("the server closed the connection")
        received += more
    return received
