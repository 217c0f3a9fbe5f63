"""The contract of drivers that take snapshots of guests."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import pytest

from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.snapshots import (
    LiveSnapshots,
    MemorySnapshots,
    Snapshots,
    SnapshotSpec,
    VolumeSnapshots,
)
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.contract_suites.subjects import (
    AbilityContract,
    Caller,
    Rig,
    guests_of,
    require,
    volume_uuids,
)
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec, PowerState


@dataclass(frozen=True)
class Contents:
    """Access to the contents of volumes of stopped guests.

    ``write`` writes a letter to a volume, ``read`` returns the letter.
    """

    write: Callable[[UUID, str], None]
    read: Callable[[UUID], str]

    def fill(self, guest: GuestSpec, letter: str) -> None:
        """Write a letter to all volumes of a guest."""
        for uuid in volume_uuids(guest):
            self.write(uuid, letter)

    def of(self, guest: GuestSpec) -> set[str]:
        """Return the letters on all volumes of a guest."""
        return {self.read(uuid) for uuid in volume_uuids(guest)}


def of_volumes() -> SnapshotSpec:
    """Return the specification of a new snapshot without memory."""
    return SnapshotSpec(uuid4(), with_memory=False)


class SnapshotContract(AbilityContract, of=Snapshots):
    """The contract that a reverted guest has all its volumes as they were when the snapshot was taken.

    Subclasses define the fixture ``contents``, a ``Contents``.
    """

    @pytest.fixture
    def stopped(self, rig: Rig, caller: Caller, contents: Contents) -> GuestSpec:
        """Return a stopped guest with the letter A on each volume."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest, forced=True)
        contents.fill(guest, "A")
        return guest

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_stopped_guest_is_what_it_was(
        self, rig: Rig, caller: Caller, contents: Contents, stopped: GuestSpec, times: int
    ) -> None:
        """A reverted guest has its old contents and can be started. Calls may be repeated."""
        snapshot = of_volumes()
        for _ in range(times):
            caller.snapshot(None, stopped, snapshot)
        assert contents.of(stopped) == {"A"}
        contents.fill(stopped, "B")
        for _ in range(times):
            caller.revert(None, stopped, snapshot)
        assert contents.of(stopped) == {"A"}
        caller.run(rig.hosts[1], stopped)
        assert guests_of(rig.driver)[stopped.uuid].power is PowerState.RUNNING
        caller.remove(rig.hosts[1], stopped)
        assert rig.volumes() == set()

    def test_each_snapshot_is_of_its_own_moment(
        self, caller: Caller, contents: Contents, stopped: GuestSpec
    ) -> None:
        """A guest can be reverted to an earlier and to a later snapshot. Removing one changes no other."""
        first, second = of_volumes(), of_volumes()
        caller.snapshot(None, stopped, first)
        contents.fill(stopped, "B")
        caller.snapshot(None, stopped, second)
        caller.revert(None, stopped, first)
        assert contents.of(stopped) == {"A"}
        caller.revert(None, stopped, second)
        assert contents.of(stopped) == {"B"}
        for _ in range(2):
            caller.remove_snapshot(None, stopped, first)
        assert contents.of(stopped) == {"B"}
        contents.fill(stopped, "C")
        caller.revert(None, stopped, second)
        assert contents.of(stopped) == {"B"}

    def test_what_is_not_there_is_not_reverted_to(
        self, rig: Rig, caller: Caller, contents: Contents, stopped: GuestSpec
    ) -> None:
        """A revert to a snapshot that was never taken, or was removed, is a permanent error.

        So is a call for a guest in another power state than the call requires.
        """
        never, removed = of_volumes(), of_volumes()
        caller.snapshot(None, stopped, removed)
        caller.remove_snapshot(None, stopped, removed)
        for snapshot in (never, removed):
            with pytest.raises(DriverError) as refused:
                caller.revert(None, stopped, snapshot)
            assert (refused.value.step, refused.value.transient) == ("revert", False)
        with pytest.raises(DriverError) as refused:
            caller.snapshot(rig.hosts[0], stopped, replace(never, with_memory=True))
        assert not refused.value.transient
        assert contents.of(stopped) == {"A"}
        caller.run(rig.hosts[0], stopped)
        with pytest.raises(DriverError) as refused:
            caller.snapshot(None, stopped, never)
        assert not refused.value.transient

    def test_what_failed_can_be_asked_for_again(
        self, rig: Rig, caller: Caller, contents: Contents, stopped: GuestSpec
    ) -> None:
        """After a failed snapshot, revert or removal, the same call succeeds."""
        snapshot = of_volumes()
        rig.fail_next("snapshot")
        with pytest.raises(DriverError) as failed:
            caller.snapshot(None, stopped, snapshot)
        assert failed.value.step == "snapshot"
        caller.snapshot(None, stopped, snapshot)
        contents.fill(stopped, "B")
        rig.fail_next("revert")
        with pytest.raises(DriverError) as failed:
            caller.revert(None, stopped, snapshot)
        assert failed.value.step == "revert"
        caller.revert(None, stopped, snapshot)
        assert contents.of(stopped) == {"A"}
        rig.fail_next("delete_snapshot")
        with pytest.raises(DriverError):
            caller.remove_snapshot(None, stopped, snapshot)
        caller.remove_snapshot(None, stopped, snapshot)

    def test_a_running_guest_goes_on_from_where_it_was(
        self, rig: Rig, caller: Caller, contents: Contents, stopped: GuestSpec
    ) -> None:
        """A running guest is reverted with its memory, also after a stop, a start and a migration.

        Then the snapshot can be removed.
        """
        require(rig, MemorySnapshots)
        snapshot = SnapshotSpec(uuid4(), with_memory=True)
        here, there = rig.hosts[:2]
        caller.run(here, stopped)
        for _ in range(2):
            caller.snapshot(here, stopped, snapshot)
        caller.revert(here, stopped, snapshot)
        caller.remove_snapshot(here, stopped, SnapshotSpec(uuid4(), with_memory=True))
        caller.stop(here, stopped, forced=True)
        contents.fill(stopped, "B")
        caller.run(here, stopped)
        if LiveMigration in rig.driver.abilities:
            caller.migrate(here, there, stopped)
            here = there
        caller.revert(here, stopped, snapshot)
        before = guests_of(rig.driver)[stopped.uuid]
        assert (before.host_uuid, before.power) == (here.uuid, PowerState.RUNNING)
        assert before.volume_uuids == set(volume_uuids(stopped))
        caller.remove_snapshot(here, stopped, snapshot)
        with pytest.raises(DriverError) as refused:
            caller.revert(here, stopped, snapshot)
        assert not refused.value.transient
        assert guests_of(rig.driver)[stopped.uuid] == before
        caller.stop(here, stopped, forced=True)
        assert contents.of(stopped) == {"A"}

    def test_volumes_of_a_running_guest_alone(
        self, rig: Rig, caller: Caller, contents: Contents, stopped: GuestSpec
    ) -> None:
        """A snapshot without memory is taken while the guest runs. The stopped guest can be reverted to it."""
        require(rig, LiveSnapshots)
        snapshot, other = of_volumes(), of_volumes()
        here = rig.hosts[0]
        caller.run(here, stopped)
        for _ in range(2):
            caller.snapshot(here, stopped, snapshot)
        caller.snapshot(here, stopped, other)
        for _ in range(2):
            caller.remove_snapshot(here, stopped, other)
        if LiveMigration in rig.driver.abilities:
            caller.migrate(here, rig.hosts[1], stopped)
            here = rig.hosts[1]
        assert guests_of(rig.driver)[stopped.uuid].power is PowerState.RUNNING
        caller.stop(here, stopped, forced=True)
        contents.fill(stopped, "B")
        with pytest.raises(DriverError) as refused:
            caller.revert(None, stopped, other)
        assert not refused.value.transient
        caller.revert(None, stopped, snapshot)
        assert contents.of(stopped) == {"A"}

    @pytest.mark.parametrize("runs", [False, True])
    def test_one_volume_alone(
        self, rig: Rig, caller: Caller, contents: Contents, stopped: GuestSpec, *, runs: bool
    ) -> None:
        """A snapshot of one volume reverts only this volume, and removing it changes no other snapshot."""
        require(rig, VolumeSnapshots, DataVolumes, *([LiveSnapshots] if runs else ()))
        root, *others = volume_uuids(stopped)
        one, every, host = replace(of_volumes(), volume_uuid=root), of_volumes(), rig.hosts[0] if runs else None
        if host is not None:
            caller.run(host, stopped)
        for snapshot in (one, every, one):
            caller.snapshot(host, stopped, snapshot)
        if host is not None:
            caller.stop(host, stopped, forced=True)
        contents.fill(stopped, "B")
        caller.revert(None, stopped, one)
        assert (contents.read(root), {contents.read(other) for other in others}) == ("A", {"B"})
        contents.fill(stopped, "C")
        if host is not None:
            caller.run(host, stopped)
        for _ in range(2):
            caller.remove_snapshot(host, stopped, one)
        if host is not None:
            caller.stop(host, stopped, forced=True)
        assert contents.of(stopped) == {"C"}
        caller.revert(None, stopped, every)
        assert contents.of(stopped) == {"A"}
