"""The contract of drivers with consoles of guests."""

import select
import socket
import time
from contextlib import closing
from uuid import UUID, uuid4

import pytest

from bulkdeploy.drivers.contract_suites.subjects import PATIENCE_S, Caller, Rig
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import ConsoleKind

CLIENT_INIT = b"\x01"
"""A client that lets others look, too."""


def read(connected: socket.socket, size: int) -> bytes:
    """Read a number of bytes, waiting for them."""
    received, ends = b"", time.monotonic() + PATIENCE_S
    while len(received) < size:
        assert select.select([connected], [], [], max(0.0, ends - time.monotonic()))[0], "the console is silent"
        more = connected.recv(size - len(received))
        assert more, "the console has ended"
        received += more
    return received


class VncConsoleContract:
    """A running guest has a screen; one that does not run has none."""

    def test_a_running_guest_has_a_screen(self, rig: Rig, caller: Caller) -> None:
        """Behind the handshake the server says how large it is and what it is called; there may be two viewers."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        opened = [_open(rig, guest.uuid, ConsoleKind.VNC) for _ in range(2)]
        for connected in opened:
            connected.sendall(CLIENT_INIT)
            said = read(connected, 24)
            assert int.from_bytes(said[0:2]) > 0
            assert int.from_bytes(said[2:4]) > 0
            name = read(connected, int.from_bytes(said[20:24]))
            assert guest.name.encode() in name
        for connected in opened:
            connected.close()

    def test_what_does_not_run_has_no_screen(self, rig: Rig, caller: Caller) -> None:
        """A guest that never existed, is stopped or is on another host has no screen: a permanent error."""
        _assert_none_without_guest(rig, caller, ConsoleKind.VNC)


class SerialConsoleContract:
    """A running guest has a serial console; one that does not run has none."""

    def test_a_running_guest_has_a_serial_console(self, rig: Rig, caller: Caller) -> None:
        """The console opens, also again after it was closed.

        While another client has it, it opens or is refused temporarily.
        """
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        with closing(_open(rig, guest.uuid, ConsoleKind.SERIAL)):
            pass
        with closing(_open(rig, guest.uuid, ConsoleKind.SERIAL)):
            try:
                with closing(_open(rig, guest.uuid, ConsoleKind.SERIAL)) as connected:
                    connected.sendall(b"\r")
            except DriverError as refused:
                if not refused.transient:
                    raise
            caller.stop(rig.hosts[0], guest, forced=True)

    def test_what_does_not_run_has_no_serial_console(self, rig: Rig, caller: Caller) -> None:
        """A guest that never existed, is stopped or is on another host has no serial console: a permanent error."""
        _assert_none_without_guest(rig, caller, ConsoleKind.SERIAL)


def _assert_none_without_guest(rig: Rig, caller: Caller, kind: ConsoleKind) -> None:
    guest = rig.new_guest()
    with pytest.raises(DriverError) as refused:
        _open(rig, uuid4(), kind)
    assert not refused.value.transient
    caller.run(rig.hosts[1], guest)
    with pytest.raises(DriverError):
        _open(rig, guest.uuid, kind)
    caller.stop(rig.hosts[1], guest)
    with pytest.raises(DriverError):
        rig.driver.open_console(rig.hosts[1], guest.uuid, kind, timeout_s=PATIENCE_S)


def _open(rig: Rig, guest_uuid: UUID, kind: ConsoleKind) -> socket.socket:
    return rig.driver.open_console(rig.hosts[0], guest_uuid, kind, timeout_s=PATIENCE_S)
