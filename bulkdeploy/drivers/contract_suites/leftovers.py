"""The contract that removed guests leave nothing on hosts."""

import base64
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from bulkdeploy.domain.virtual_machines.firmware import BootMode
from bulkdeploy.drivers.abilities.consoles import SerialConsoles, VncConsoles
from bulkdeploy.drivers.abilities.isos import IsoDrives
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.snapshots import Snapshots, SnapshotSpec
from bulkdeploy.drivers.abilities.starts import UefiFirmware
from bulkdeploy.drivers.contract_suites.consoles import open_screen, open_serial
from bulkdeploy.drivers.contract_suites.subjects import Caller, Rig
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAddress

USER_DATA = base64.b64encode(b"#cloud-config\n{}\n").decode()


class LeftoversContract:
    """The contract that nothing that was created for a guest remains on any host after its removal.

    Subclasses define the fixtures ``rig``, ``caller`` and ``traces``. ``traces`` is a function that returns the
    names of all files on all hosts and pools, and of all objects of the hypervisor that are in no file. It omits
    what changes by itself, such as a daemon's own state. Templates and ISOs in pools belong to no guest.
    """

    @pytest.mark.parametrize("is_moved", [False, True], ids=["in one place", "moved"])
    def test_nothing_remains_of_a_guest_that_had_everything(
        self, rig: Rig, caller: Caller, traces: Callable[[], set[str]], is_moved: bool
    ) -> None:
        """Disks, seed, ISO, firmware variables, snapshots and consoles are deleted with the guest.

        This is also true for a guest that was on two hosts.
        """
        _live(rig, caller, _with_everything(rig), is_moved=is_moved)  # the template and the ISO get into the pool
        before = traces()
        for _ in range(2):
            guest = _with_everything(rig)
            _live(rig, caller, guest, is_moved=is_moved)
            assert traces() - before == set()

    def test_nothing_remains_of_a_start_that_failed(
        self, rig: Rig, caller: Caller, traces: Callable[[], set[str]]
    ) -> None:
        """Whichever step of a start failed, the following removal deletes everything that was created."""
        _live(rig, caller, _with_everything(rig), is_moved=False)
        before = traces()
        for step in rig.start_steps:
            guest = _with_everything(rig)
            rig.fail_next(step)
            with pytest.raises(Exception, match=r".+"):
                caller.run(rig.hosts[0], guest)
            caller.remove(rig.hosts[0], guest)
            assert traces() - before == set()


def _with_everything(rig: Rig) -> GuestSpec:
    abilities = rig.driver.abilities
    return replace(
        rig.new_guest(),
        user_data=USER_DATA,
        host_name="web",
        public_keys=("ssh-ed25519 AAAA",),
        iso_uuid=rig.subjects.iso_uuid if IsoDrives in abilities else None,
        uefi=BootMode.LEGACY if UefiFirmware in abilities else None,
    )


def _live(rig: Rig, caller: Caller, guest: GuestSpec, *, is_moved: bool) -> None:
    """Start, snapshot, stop and remove a guest, and open its consoles.

    If ``is_moved``, also run it on another host.
    """
    abilities, (host, other) = rig.driver.abilities, rig.hosts[:2]
    if guest.iso_uuid is not None:
        caller.ensure_iso(host, guest)
    caller.run(host, guest)
    _look(rig, host, guest)
    if is_moved and LiveMigration in abilities:
        caller.migrate(host, other, guest)
        host = other
    caller.stop(host, guest, forced=True)
    snapshot = SnapshotSpec(uuid4(), with_memory=False)
    if Snapshots in abilities:
        caller.snapshot(None, guest, snapshot)
    if is_moved:
        caller.run(other, guest)
        _look(rig, other, guest)
        caller.stop(other, guest, forced=True)
    if Snapshots in abilities:
        caller.remove_snapshot(None, guest, snapshot)
    caller.remove(None if is_moved else host, guest)


def _look(rig: Rig, host: HostAddress, guest: GuestSpec) -> None:
    for ability, connect in ((VncConsoles, open_screen), (SerialConsoles, open_serial)):
        if ability in rig.driver.abilities:
            connect(rig, host, guest.uuid).close()
