"""The contract of all hypervisor drivers for starting, stopping and removing guests, including failures."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.batches import BatchDriver
from bulkdeploy.drivers.contract_suites.batches import BatchContract
from bulkdeploy.drivers.contract_suites.concurrency import ConcurrencyContract
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig, guests_of, volume_uuids
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState


class DriverContract(ConcurrencyContract):
    """The contract of the calls that every driver has. Subclasses define the fixture ``rig``, a ``Rig``."""

    @pytest.fixture
    def caller(self, rig: Rig) -> Caller:
        """Return a caller of the driver under test."""
        return Caller(rig.driver, timeout_s=rig.patience_s)

    def test_its_abilities_are_tested(self, rig: Rig) -> None:
        """A driver inherits the suites of all its abilities and, if it accepts batches, ``BatchContract``."""
        needed: set[type] = {
            suite
            for suite, needs in AbilityContract.suites.items()
            if any(issubclass(ability, needs) for ability in rig.driver.abilities)
        }
        if isinstance(rig.driver, BatchDriver):
            needed.add(BatchContract)
        assert sorted(suite.__name__ for suite in needed if not isinstance(self, suite)) == []

    def test_what_it_is_not_able_to_do_is_refused(self, rig: Rig, caller: Caller) -> None:
        """A call for a missing ability is a permanent error, and the guest continues unchanged."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        before = guests_of(rig.driver)
        calls: dict[type[Ability], Callable[[], None]] = {
            LiveMigration: lambda: caller.migrate(rig.hosts[0], rig.hosts[1], guest),
            LiveScaling: lambda: caller.scale(rig.hosts[0], replace(guest, cpu_number=2)),
            GrowingVolumes: lambda: caller.resize(rig.hosts[0], guest, guest.volumes[0]),
        }
        for ability in calls.keys() - rig.driver.abilities:
            with pytest.raises(DriverError) as refused:
                calls[ability]()
            assert not refused.value.transient
        assert guests_of(rig.driver) == before

    def test_running_guest_is_there_as_asked(self, rig: Rig, caller: Caller) -> None:
        """A started guest runs on its host with the requested sizes and volumes."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.host_uuid, there.power) == (rig.hosts[0].uuid, PowerState.RUNNING)
        assert (there.cpu_number, there.cpu_mhz, there.memory_mib) == (
            guest.cpu_number,
            guest.cpu_mhz,
            guest.memory_mib,
        )
        assert there.volume_uuids == set(volume_uuids(guest))
        assert sorted(rig.driver.list_volumes()) == sorted(
            (volume.uuid, volume.pool_uuid, volume.size_bytes) for volume in guest.volumes
        )

    @pytest.mark.parametrize("times", [1, 3])
    def test_every_call_may_be_repeated(self, rig: Rig, caller: Caller, times: int) -> None:
        """A repeated start, stop or removal succeeds and changes nothing."""
        guest = rig.new_guest()
        for _ in range(times):
            caller.run(rig.hosts[0], guest)
        assert len(guests_of(rig.driver)) == 1
        for _ in range(times):
            caller.stop(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}
        for _ in range(times):
            caller.remove(rig.hosts[0], guest)
        assert list(rig.driver.list_volumes()) == []

    def test_stopping_leaves_the_volumes(self, rig: Rig, caller: Caller) -> None:
        """A stopped guest is on no host, keeps its volumes, and starts on another host with them."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest)
        assert rig.volumes() == set(volume_uuids(guest))
        caller.run(rig.hosts[1], guest)
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid
        assert rig.volumes() == set(volume_uuids(guest))

    @pytest.mark.parametrize("forced", [False, True])
    def test_what_never_was_can_be_stopped_and_removed(self, rig: Rig, caller: Caller, forced: bool) -> None:
        """Stopping and removing a guest that never existed succeeds, with and without a host."""
        guest = rig.new_guest()
        caller.stop(rig.hosts[0], guest, forced=forced)
        caller.remove(rig.hosts[0], guest)
        caller.remove(None, guest)
        assert guests_of(rig.driver) == {}

    def test_a_guest_is_never_made_twice(self, rig: Rig, caller: Caller) -> None:
        """While a guest runs on one host, a start on another host fails and changes nothing."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        with pytest.raises(DriverError) as refused:
            caller.run(rig.hosts[1], guest)
        assert refused.value.host == rig.hosts[1].name
        assert not refused.value.transient
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[0].uuid

    def test_removing_at_the_wrong_host_never_lies(self, rig: Rig, caller: Caller) -> None:
        """A removal on another host than the guest's either fails or removes the guest."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        failed = False
        try:
            caller.remove(rig.hosts[1], guest)
        except DriverError:
            failed = True
        assert failed == (guest.uuid in guests_of(rig.driver))

    def test_removal_without_a_host_finds_the_guest(self, rig: Rig, caller: Caller) -> None:
        """A removal without a host removes the guest from whichever host has it, and no other guest."""
        guest, other = rig.new_guest(), rig.new_guest()
        caller.run(rig.hosts[1], guest)
        caller.run(rig.hosts[1], other)
        caller.remove(None, guest)
        assert set(guests_of(rig.driver)) == {other.uuid}
        assert rig.volumes() == set(volume_uuids(other))

    def test_a_failed_start_can_be_repeated(self, rig: Rig, caller: Caller) -> None:
        """After a failure in any step of a start, the same call creates the guest once, with all its volumes."""
        for step in rig.start_steps:
            guest = rig.new_guest()
            rig.fail_next(step)
            with pytest.raises(DriverError) as failed:
                caller.run(rig.hosts[0], guest)
            assert failed.value.step == step
            there = guests_of(rig.driver).get(guest.uuid)
            assert there is None or there.power is PowerState.STOPPED
            caller.run(rig.hosts[0], guest)
            there = guests_of(rig.driver)[guest.uuid]
            assert (there.power, there.volume_uuids) == (PowerState.RUNNING, frozenset(volume_uuids(guest)))
        assert len(list(rig.driver.list_volumes())) == rig.subjects.volumes * len(rig.start_steps)

    def test_a_failed_start_can_be_undone(self, rig: Rig, caller: Caller) -> None:
        """After a failure in any step, a removal deletes everything, and another host can run the guest."""
        for step in rig.start_steps:
            guest = rig.new_guest()
            rig.fail_next(step)
            with pytest.raises(DriverError):
                caller.run(rig.hosts[0], guest)
            caller.remove(rig.hosts[0], guest)
            assert (guests_of(rig.driver), rig.volumes()) == ({}, set())
            caller.run(rig.hosts[1], guest)
            assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid
            caller.remove(rig.hosts[1], guest)

    @pytest.mark.parametrize("timeout_s", [0.001, 0.2])
    def test_a_start_that_ran_out_of_time_can_be_repeated(self, rig: Rig, caller: Caller, timeout_s: float) -> None:
        """A start that times out raises an error that may pass.

        The next start creates the guest once, with all its volumes.
        """
        guest = rig.new_guest()
        errors: list[DriverError] = []
        try:
            Caller(rig.driver, timeout_s=timeout_s).run(rig.hosts[0], guest)
        except DriverError as error:
            errors.append(error)
        assert all(error.may_pass for error in errors), errors
        caller.run(rig.hosts[0], guest)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.power, there.volume_uuids) == (PowerState.RUNNING, frozenset(volume_uuids(guest)))
        assert rig.volumes() == set(volume_uuids(guest))

    def test_a_failed_stop_says_the_truth(self, rig: Rig, caller: Caller) -> None:
        """After a failed stop, the guest is still running, and the stop can be repeated."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        rig.fail_next("stop")
        with pytest.raises(DriverError):
            caller.stop(rig.hosts[0], guest)
        assert guests_of(rig.driver)[guest.uuid].power is PowerState.RUNNING
        caller.stop(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}

    def test_a_look_tells_what_a_guest_does(self, rig: Rig, caller: Caller) -> None:
        """A power query returns Running, or None for an absent guest.

        A query on another host than the guest's fails.
        """
        guest, host = rig.new_guest(), rig.hosts[0]
        assert caller.look(host, guest) is None
        caller.run(host, guest)
        assert caller.look(host, guest) is PowerState.RUNNING
        with pytest.raises(DriverError):
            caller.look(rig.hosts[1], guest)
        caller.stop(host, guest)
        assert caller.look(host, guest) is None

    def test_what_a_look_did_not_find_may_start_elsewhere(self, rig: Rig, caller: Caller) -> None:
        """After a failed start and a power query that returned None, the guest can start on another host."""
        for step in rig.start_steps:
            guest = rig.new_guest()
            rig.fail_next(step)
            with pytest.raises(DriverError):
                caller.run(rig.hosts[0], guest)
            if caller.look(rig.hosts[0], guest) is not None:
                caller.stop(rig.hosts[0], guest)
            caller.run(rig.hosts[1], guest)
            assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid

    def test_a_lost_disk_is_never_made_anew(self, rig: Rig, caller: Caller) -> None:
        """A start of a guest whose root disk is lost fails, creates nothing, and its error names the remedy.

        A start that finds the disks works, and so does a first start, as after restoreVirtualMachine.
        """
        new = rig.new_guest()
        again = replace(new, volumes=tuple(replace(volume, was_made=True) for volume in new.volumes))
        caller.run(rig.hosts[0], new)
        caller.stop(rig.hosts[0], new)
        caller.run(rig.hosts[0], again)
        assert guests_of(rig.driver)[new.uuid].power is PowerState.RUNNING
        caller.remove(rig.hosts[0], new)
        for host in rig.hosts:
            with pytest.raises(DriverError, match="restoreVirtualMachine") as lost:
                caller.run(host, again)
            assert (lost.value.transient, lost.value.unanswered) == (False, False)
            assert caller.look(host, again) is None
        assert (guests_of(rig.driver), rig.volumes()) == ({}, set())
        caller.run(rig.hosts[0], new)
        assert rig.volumes() == set(volume_uuids(new))

    def test_a_failed_removal_can_be_repeated(self, rig: Rig, caller: Caller) -> None:
        """A removal that failed half-way is completed by the next removal."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        rig.fail_next("delete")
        with pytest.raises(DriverError):
            caller.remove(rig.hosts[0], guest)
        caller.remove(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}
        assert list(rig.driver.list_volumes()) == []
