"""Consoles of guests as sockets: the screen over VNC after its handshake, and the serial console as bytes.

A guest's VNC password is generated when the guest is defined and is a part of its definition, which libvirt copies
when the guest migrates. The password is read from the definition and stored nowhere else.
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
        DriverError: the guest has no screen, or its VNC server cannot be reached.
    """
    root = Tree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE))  # noqa: S314 - of the daemon that we drive
    graphics = root.find("devices/graphics[@type='vnc']")
    port = -1 if graphics is None else int(graphics.get("port", "-1"))
    if graphics is None or port < 0:
        reason = "the guest has no screen; if screens were enabled after its start, stop and start it"
        raise DriverError(STEP, call.host.name, reason, transient=False)
    address = call.host.ip_address
    try:
        return connect_to_vnc(address, port, graphics.get("passwd", ""), timeout_s=call.deadline.left_s())
    except (OSError, VncRefused) as error:
        reason = f"the guest's VNC server at {address}, port {port}: {error}"
        raise DriverError(STEP, call.host.name, reason, transient=True) from error


def open_serial(connection: Any, domain: Any) -> socket.socket:
    """Connect to a guest's serial console.

    An earlier connection to the console is closed.

    Args:
        connection: a connection to libvirt only for this console. It is closed with the console.
        domain: the guest's domain from this connection.
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
