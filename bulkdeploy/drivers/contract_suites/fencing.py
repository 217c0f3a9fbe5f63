"""The contract of drivers whose hypervisor or records check fences."""

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.abilities.devices import HotPlugNics
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.abilities.snapshots import MemorySnapshots, Snapshots, SnapshotSpec
from bulkdeploy.drivers.contract_suites.subjects import Caller, Rig, guests_of, require
from bulkdeploy.drivers.errors import DriverError, StaleFence


class FencingContract:
    """The contract that a caller with an outdated fence cannot change a guest."""

    def test_an_overtaken_fence_is_refused(self, rig: Rig) -> None:
        """Every call with a lower fence than a previous call for the guest fails and changes nothing."""
        guest, late = rig.new_guest(), Caller(rig.driver, fence=4, timeout_s=rig.patience_s)
        with_memory = SnapshotSpec(uuid4(), with_memory=True)
        Caller(rig.driver, fence=5, timeout_s=rig.patience_s).run(rig.hosts[0], guest)
        before = guests_of(rig.driver)
        with pytest.raises(StaleFence):
            late.run(rig.hosts[0], guest)
        with pytest.raises(StaleFence):
            late.stop(rig.hosts[0], guest, forced=True)
        with pytest.raises(StaleFence):
            late.remove(None, guest)
        with pytest.raises(StaleFence):
            late.look(rig.hosts[0], guest)
        calls: dict[type[Ability], Callable[[], None]] = {
            LiveMigration: lambda: late.migrate(rig.hosts[0], rig.hosts[1], guest),
            LiveScaling: lambda: late.scale(rig.hosts[0], replace(guest, cpu_number=2)),
            GrowingVolumes: lambda: late.resize(rig.hosts[0], guest, guest.volumes[0]),
            HotPlugNics: lambda: late.devices(rig.hosts[0], replace(guest, nics=())),
            MemorySnapshots: lambda: late.snapshot(rig.hosts[0], guest, with_memory),
        }
        for ability, call in calls.items():
            if ability in rig.driver.abilities:
                with pytest.raises(StaleFence):
                    call()
        assert guests_of(rig.driver) == before

    def test_a_stopped_guest_is_not_reverted_by_who_comes_late(self, rig: Rig) -> None:
        """A call with a lower fence can neither take, nor revert to, nor remove a snapshot of a stopped guest."""
        require(rig, Snapshots)
        guest, late, snapshot = (
            rig.new_guest(),
            Caller(rig.driver, fence=4, timeout_s=rig.patience_s),
            SnapshotSpec(uuid4(), with_memory=False),
        )
        newer = Caller(rig.driver, fence=5, timeout_s=rig.patience_s)
        newer.run(rig.hosts[0], guest)
        newer.stop(rig.hosts[0], guest, forced=True)
        newer.snapshot(None, guest, snapshot)
        for call in (late.snapshot, late.revert, late.remove_snapshot):
            with pytest.raises(StaleFence):
                call(None, guest, snapshot)
        newer.revert(None, guest, snapshot)

    def test_what_a_look_saw_stays_so_for_those_who_come_late(self, rig: Rig) -> None:
        """After a power query, a call with a lower fence cannot start the guest."""
        guest = rig.new_guest()
        assert Caller(rig.driver, fence=5, timeout_s=rig.patience_s).look(rig.hosts[0], guest) is None
        with pytest.raises(StaleFence):
            Caller(rig.driver, fence=4, timeout_s=rig.patience_s).run(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}

    def test_the_same_or_a_higher_fence_is_let_in(self, rig: Rig) -> None:
        """Calls with the same fence may be repeated, and calls with a higher fence succeed."""
        guest = rig.new_guest()
        for fence in (3, 3, 4):
            Caller(rig.driver, fence=fence, timeout_s=rig.patience_s).run(rig.hosts[0], guest)
        Caller(rig.driver, fence=9, timeout_s=rig.patience_s).stop(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}

    @pytest.mark.parametrize("how", ["stop", "remove"])
    def test_fences_outlive_the_guest(self, rig: Rig, how: str) -> None:
        """After a removal or a stop, also of a missing guest, a call with a lower fence cannot create the guest."""
        guest, new = rig.new_guest(), Caller(rig.driver, fence=2, timeout_s=rig.patience_s)
        if how == "stop":
            new.stop(rig.hosts[0], guest)
        else:
            new.remove(None, guest)
        with pytest.raises(StaleFence):
            Caller(rig.driver, fence=1, timeout_s=rig.patience_s).run(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}

    def test_a_refused_call_is_seen_too(self, rig: Rig) -> None:
        """A call that is rejected for another reason still invalidates lower fences."""
        guest, old = rig.new_guest(), Caller(rig.driver, fence=1, timeout_s=rig.patience_s)
        old.run(rig.hosts[0], guest)
        with pytest.raises(DriverError):
            Caller(rig.driver, fence=2, timeout_s=rig.patience_s).run(rig.hosts[1], guest)
        with pytest.raises(StaleFence):
            old.stop(rig.hosts[0], guest)

    def test_fences_are_per_guest(self, rig: Rig) -> None:
        """A high fence of one guest does not affect calls for another guest."""
        Caller(rig.driver, fence=100, timeout_s=rig.patience_s).run(rig.hosts[0], rig.new_guest())
        guest = rig.new_guest()
        Caller(rig.driver, fence=1, timeout_s=rig.patience_s).run(rig.hosts[0], guest)
        assert guest.uuid in guests_of(rig.driver)
