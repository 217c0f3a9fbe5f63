"""Guests with a screen: a VNC server behind its security handshake (RFC 6143, sections 7.3 to 7.6)."""

import socket
import struct
import threading
from dataclasses import dataclass, field
from uuid import UUID

from bulkdeploy.drivers.abilities.consoles import VncConsoles
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.driver import SimulatorDriver

WIDTH, HEIGHT = 64, 48
BEFORE, AFTER = (200, 30, 40), (20, 160, 60)
"""Red, green and blue of the whole screen, until a key goes down, and from then on."""
PIXELS = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 0, 8, 16)
SET_PIXEL_FORMAT, SET_ENCODINGS, UPDATE_REQUEST, KEY, POINTER, CUT_TEXT = 0, 2, 3, 4, 5, 6
SIZES = {SET_PIXEL_FORMAT: 19, SET_ENCODINGS: 3, UPDATE_REQUEST: 9, KEY: 7, POINTER: 5, CUT_TEXT: 7}
"""Bytes of a message after its first one, without what its length announces."""


class Gone(Exception):
    """The viewer has hung up."""


@dataclass
class Screen:
    """The screen of one guest, and what its keyboard was told.

    Attributes:
        keys: keysyms of keys that went down, in order.
    """

    name: str
    keys: list[int] = field(default_factory=list)
    _viewers: list[socket.socket] = field(default_factory=list)

    def open(self) -> socket.socket:
        """A connection on which ClientInit comes next."""
        mine, given = socket.socketpair()
        self._viewers.append(mine)
        threading.Thread(target=self._serve, args=(mine,), daemon=True).start()
        return given

    def hang_up(self) -> None:
        """The guest ends, and its screen with it."""
        for viewer in self._viewers:
            viewer.shutdown(socket.SHUT_RDWR)

    def _serve(self, viewer: socket.socket) -> None:
        with viewer:
            try:
                _receive(viewer, 1)
                name = self.name.encode()
                viewer.sendall(struct.pack(">HH", WIDTH, HEIGHT) + PIXELS + struct.pack(">I", len(name)) + name)
                while True:
                    self._heed(viewer)
            except (Gone, OSError):
                return

    def _heed(self, viewer: socket.socket) -> None:
        kind = _receive(viewer, 1)[0]
        message = _receive(viewer, SIZES[kind])
        if kind == SET_ENCODINGS:
            _receive(viewer, 4 * struct.unpack(">xH", message)[0])
        elif kind == CUT_TEXT:
            _receive(viewer, abs(struct.unpack(">3xi", message)[0]))
        elif kind == UPDATE_REQUEST and not message[0]:
            self._draw(viewer)
        elif kind == KEY and message[0]:
            self.keys.append(struct.unpack(">3xI", message)[0])
            self._draw(viewer)

    def _draw(self, viewer: socket.socket) -> None:
        """The whole screen in one rectangle, raw."""
        colour = bytes(AFTER if self.keys else BEFORE) + b"\0"
        viewer.sendall(struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 0) + colour * (WIDTH * HEIGHT))


class ScreenDriver(VncConsoles, SimulatorDriver):
    """Hypervisors whose guests all have this screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def open_vnc_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        """Return a connection to the screen of all guests."""
        del host, guest_uuid, timeout_s
        return self._screen.open()


def _receive(viewer: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = viewer.recv(size - len(received))
        if not more:
            raise Gone
        received += more
    return received
