"""Consoles of guests as sockets: the screen by VNC, behind its handshake, and the serial console as bytes.

A guest's VNC password is made when the guest is defined and stands in its definition: libvirt takes it along when
the guest moves. It is read from there and never stored elsewhere.
"""

import socket
import threading
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import libvirt
from bulkdeploy.drivers.libvirt.vnc import VncRefused, connect_to_vnc

STEP = "console"
CHUNK_BYTES = 64 * 1024


def open_screen(call: HostCall, domain: Any) -> socket.socket:
    """Connect to a guest's VNC server, and prove that we may.

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
    ours, theirs = socket.socketpair()
    threads = [
        threading.Thread(target=_from_guest, args=(stream, ours), name="serial-read", daemon=True),
        threading.Thread(target=_to_guest, args=(connection, stream, ours), name="serial-write", daemon=True),
    ]
    for thread in threads:
        thread.start()
    return theirs


def _from_guest(stream: Any, ours: socket.socket) -> None:
    """What the guest writes, until the guest or the connection ends."""
    with suppress(libvirt.libvirtError, OSError):
        while data := stream.recv(CHUNK_BYTES):
            ours.sendall(data)
    with suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)


def _to_guest(connection: Any, stream: Any, ours: socket.socket) -> None:
    """Pass on what is typed, until the connection or the guest ends; then everything is closed."""
    with suppress(libvirt.libvirtError, OSError):
        while data := ours.recv(CHUNK_BYTES):
            while data:
                data = data[stream.send(data) :]
    with suppress(libvirt.libvirtError):
        stream.abort()
    ours.close()
    with suppress(libvirt.libvirtError):
        connection.close()
