"""The contract of drivers that open consoles of guests."""

import select
import socket
import time
from collections.abc import Callable
from contextlib import closing
from uuid import UUID, uuid4

import pytest

from bulkdeploy.drivers.abilities.consoles import SerialConsoles, VncConsoles
from bulkdeploy.drivers.contract_suites.subjects import PATIENCE_S, AbilityContract, Caller, Rig
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress

CLIENT_INIT = b"\x01"
"""The ClientInit message of a client that shares the screen with other clients."""


def read(connected: socket.socket, size: int) -> bytes:
    """Read exactly ``size`` bytes from a console. The test fails if they do not arrive in time."""
    received, ends = b"", time.monotonic() + PATIENCE_S
    while len(received) < size:
        assert select.select([connected], [], [], max(0.0, ends - time.monotonic()))[0], "the console is silent"
        more = connected.recv(size - len(received))
        assert more, "the console has ended"
        received += more
    return received


Connect = Callable[[Rig, HostAddress, UUID], socket.socket]
"""A function that connects to the console of a guest on a host."""


class VncConsoleContract(AbilityContract, of=VncConsoles):
    """The contract of VNC consoles: only a running guest has a screen."""

    def test_a_running_guest_has_a_screen(self, rig: Rig, caller: Caller) -> None:
        """After the handshake, the server reports the size and the guest's name. Two viewers may connect."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        opened = [open_screen(rig, rig.hosts[0], guest.uuid) for _ in range(2)]
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
        _assert_none_without_guest(rig, caller, open_screen)


class SerialConsoleContract(AbilityContract, of=SerialConsoles):
    """The contract of serial consoles: only a running guest has a serial console."""

    def test_a_running_guest_has_a_serial_console(self, rig: Rig, caller: Caller) -> None:
        """The console opens, also again after it was closed.

        While one client has the console, a second client connects or gets a transient error.
        """
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        with closing(open_serial(rig, rig.hosts[0], guest.uuid)):
            pass
        with closing(open_serial(rig, rig.hosts[0], guest.uuid)):
            try:
                with closing(open_serial(rig, rig.hosts[0], guest.uuid)) as connected:
                    connected.sendall(b"\r")
            except DriverError as refused:
                if not refused.transient:
                    raise
            caller.stop(rig.hosts[0], guest, forced=True)

    def test_what_does_not_run_has_no_serial_console(self, rig: Rig, caller: Caller) -> None:
        """A guest that never existed, is stopped or is on another host has no serial console: a permanent error."""
        _assert_none_without_guest(rig, caller, open_serial)


def _assert_none_without_guest(rig: Rig, caller: Caller, connect: Connect) -> None:
    guest = rig.new_guest()
    with pytest.raises(DriverError) as refused:
        connect(rig, rig.hosts[0], uuid4())
    assert not refused.value.transient
    caller.run(rig.hosts[1], guest)
    with pytest.raises(DriverError):
        connect(rig, rig.hosts[0], guest.uuid)
    caller.stop(rig.hosts[1], guest)
    with pytest.raises(DriverError):
        connect(rig, rig.hosts[1], guest.uuid)


def open_screen(rig: Rig, host: HostAddress, guest_uuid: UUID) -> socket.socket:
    """Connect to the VNC console of a guest."""
    return VncConsoles.of(rig.driver).open_vnc_console(host, guest_uuid, timeout_s=PATIENCE_S)


def open_serial(rig: Rig, host: HostAddress, guest_uuid: UUID) -> socket.socket:
    """Connect to the serial console of a guest."""
    return SerialConsoles.of(rig.driver).open_serial_console(host, guest_uuid, timeout_s=PATIENCE_S)
