"""Consoles of guests."""

import socket
from abc import abstractmethod
from enum import StrEnum
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.hosts import HostAddress


class ConsoleKind(StrEnum):
    """The kind of a guest's console."""

    VNC = "vnc"
    SERIAL = "serial"


class VncConsoles(Ability):
    """The ability to show the screens of running guests."""

    ability_name = "VNC console"

    @abstractmethod
    def open_vnc_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        """Connect to the screen of a guest that runs on ``host``. The caller closes the socket.

        The socket speaks the protocol of RFC 6143 after the security handshake, which the driver has done, so the
        client's ClientInit is next.

        Raises:
            DriverError: the guest does not run there, has no screen, or the screen cannot be reached.
        """


class SerialConsoles(Ability):
    """The ability to connect to the serial consoles of running guests."""

    ability_name = "serial console"

    @abstractmethod
    def open_serial_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        """Connect to the serial console of a guest that runs on ``host``.

        The caller closes the socket.

        The socket transfers the guest's output and input.

        Raises:
            DriverError: the guest does not run there or has no serial console, or the console cannot be reached.
        """
