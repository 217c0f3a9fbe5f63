"""Consoles of guests as sockets: the screen over VNC after its handshake, and the serial console as bytes.

A guest's VNC password is made when the guest is defined and stands in its definition: libvirt takes it along when
the guest moves. It is read from there and never stored elsewhere.
"""

import socket
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.streams import CHUNK_BYTES, as_socket
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import libvirt
from bulkdeploy.drivers.vnc import VncRefused, connect_to_vnc

STEP = "console"


def open_screen(call: HostCall, domain: Any) -> socket.socket:
    """Connect to a guest's VNC server and authenticate with the guest's password.

    Raises:
        DriverError: it has none, or it does not answer as one.
    """
    root = Tree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE))  # noqa: S314 - of the daemon that we drive
    graphics = root.find("devices/graphics[@type='vnc']")
    port = -1 if graphics is None else int(graphics.get("port", "-1"))
    if graphics is None or port < 0:
        reason = "the guest has no screen; one that was started before it could have one gets it by stop and start"
        raise DriverError(STEP, call.host.name, reason, transient=False)
    address = call.host.ip_address
    try:
        return connect_to_vnc(address, port, graphics.get("passwd", ""), timeout_s=call.deadline.left_s())
    except (OSError, VncRefused) as error:
        reason = f"its VNC server at {address}, port {port}: {error}"
        raise DriverError(STEP, call.host.name, reason, transient=True) from error


def open_serial(connection: Any, domain: Any) -> socket.socket:
    """Connect to a guest's serial console; an earlier connection is closed.

    Args:
        connection: of libvirt, which serves this console alone, and is closed with it.
        domain: the guest, by this connection.
    """
    stream = connection.newStream()
    domain.openConsole(None, stream, libvirt.VIR_DOMAIN_CONSOLE_FORCE)

    def write(data: bytes) -> None:
        while data:
            data = data[stream.send(data) :]

    def close() -> None:
        with suppress(libvirt.libvirtError):
            stream.abort()
        connection.close()

    return as_socket(lambda: stream.recv(CHUNK_BYTES), write, close, libvirt.libvirtError)
