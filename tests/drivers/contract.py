"""What any hypervisor driver must keep: subclass ``DriverContract`` and give it a ``rig``.

A driver whose hypervisor checks fences subclasses ``FencingContract`` too.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from bulkdeploy.drivers.driver import DriverError, GuestSpec, HostAddress, HypervisorDriver, PowerState, StaleFence
from tests.drivers.subjects import Caller, guests_of, new_guest, volume_uuids

THREADS = 16


@dataclass(frozen=True)
class Rig:
    """A driver on a hypervisor without guests.

    Attributes:
        driver: the driver under test.
        hosts: at least two hosts.
        room: how many guests of ``new_guest()``'s size each host holds, 3 to 12.
        fail_next: makes the next call fail in the given step, with what was done before it left behind.
    """

    driver: HypervisorDriver
    hosts: tuple[HostAddress, ...]
    room: int
    fail_next: Callable[[str], None]


class DriverContract:
    """Make-it-so calls, and the truth about what is there. Subclasses give the fixture ``rig``, a ``Rig``."""

    @pytest.fixture
    def caller(self, rig: Rig) -> Caller:
        """Calls the driver under test."""
        return Caller(rig.driver)

    def test_running_guest_is_there_as_asked(self, rig: Rig, caller: Caller) -> None:
        """A guest that was made runs on its host with its sizes and volumes."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.host_uuid, there.power) == (rig.hosts[0].uuid, PowerState.RUNNING)
        assert (there.cpu_number, there.cpu_mhz, there.memory_mib) == (1, 500, 256)
        assert there.volume_uuids == set(volume_uuids(guest))
        assert sorted(rig.driver.list_volumes()) == sorted(
            (volume.uuid, volume.pool_uuid, volume.size_bytes) for volume in guest.volumes
        )

    @pytest.mark.parametrize("times", [1, 3])
    def test_every_call_may_be_repeated(self, rig: Rig, caller: Caller, times: int) -> None:
        """Running, stopping and removing again changes nothing and is no error."""
        guest = new_guest()
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
        """A stopped guest is on no host, keeps its volumes and starts on another host with them."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest)
        assert {volume[0] for volume in rig.driver.list_volumes()} == set(volume_uuids(guest))
        caller.run(rig.hosts[1], guest)
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid
        assert len(list(rig.driver.list_volumes())) == 2

    @pytest.mark.parametrize("forced", [False, True])
    def test_what_never_was_can_be_stopped_and_removed(self, rig: Rig, caller: Caller, forced: bool) -> None:
        """Absent is fine, with a host and without."""
        guest = new_guest()
        caller.stop(rig.hosts[0], guest, forced=forced)
        caller.remove(rig.hosts[0], guest)
        caller.remove(None, guest)
        assert guests_of(rig.driver) == {}

    def test_a_guest_is_never_made_twice(self, rig: Rig, caller: Caller) -> None:
        """While it runs on one host, another host refuses it and stays as it is."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        with pytest.raises(DriverError) as refused:
            caller.run(rig.hosts[1], guest)
        assert refused.value.host == rig.hosts[1].name
        assert not refused.value.transient
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[0].uuid

    def test_removing_at_the_wrong_host_never_lies(self, rig: Rig, caller: Caller) -> None:
        """A removal that names another host either says that it failed, or the guest is gone."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        failed = False
        try:
            caller.remove(rig.hosts[1], guest)
        except DriverError:
            failed = True
        assert failed == (guest.uuid in guests_of(rig.driver))

    def test_removal_without_a_host_finds_the_guest(self, rig: Rig, caller: Caller) -> None:
        """Host None means wherever it is."""
        guest, other = new_guest(), new_guest()
        caller.run(rig.hosts[1], guest)
        caller.run(rig.hosts[1], other)
        caller.remove(None, guest)
        assert set(guests_of(rig.driver)) == {other.uuid}
        assert {volume[0] for volume in rig.driver.list_volumes()} == set(volume_uuids(other))

    @pytest.mark.parametrize("step", ["volume", "network", "boot"])
    def test_a_failed_start_can_be_repeated(self, rig: Rig, caller: Caller, step: str) -> None:
        """After a failure in any step the same call makes the guest, once and whole."""
        guest = new_guest()
        rig.fail_next(step)
        with pytest.raises(DriverError) as failed:
            caller.run(rig.hosts[0], guest)
        assert failed.value.step == step
        there = guests_of(rig.driver).get(guest.uuid)
        assert there is None or there.power is PowerState.STOPPED
        caller.run(rig.hosts[0], guest)
        assert guests_of(rig.driver)[guest.uuid].power is PowerState.RUNNING
        assert len(list(rig.driver.list_volumes())) == 2

    @pytest.mark.parametrize("step", ["volume", "network", "boot"])
    def test_a_failed_start_can_be_undone(self, rig: Rig, caller: Caller, step: str) -> None:
        """After a failure in any step a removal leaves nothing, and another host takes the guest."""
        guest = new_guest()
        rig.fail_next(step)
        with pytest.raises(DriverError):
            caller.run(rig.hosts[0], guest)
        caller.remove(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}
        assert list(rig.driver.list_volumes()) == []
        caller.run(rig.hosts[1], guest)
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid

    def test_a_failed_stop_says_the_truth(self, rig: Rig, caller: Caller) -> None:
        """A stop that fails leaves the guest running, and can be repeated."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        rig.fail_next("stop")
        with pytest.raises(DriverError):
            caller.stop(rig.hosts[0], guest)
        assert guests_of(rig.driver)[guest.uuid].power is PowerState.RUNNING
        caller.stop(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}

    def test_a_look_tells_what_a_guest_does(self, rig: Rig, caller: Caller) -> None:
        """It runs, or it is not there; whoever asks at another host is told that it is not that host's."""
        guest, host = new_guest(), rig.hosts[0]
        assert caller.look(host, guest) is None
        caller.run(host, guest)
        assert caller.look(host, guest) is PowerState.RUNNING
        with pytest.raises(DriverError):
            caller.look(rig.hosts[1], guest)
        caller.stop(host, guest)
        assert caller.look(host, guest) is None

    def test_a_failed_removal_can_be_repeated(self, rig: Rig, caller: Caller) -> None:
        """A removal that fails half-way is finished by the next one."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        rig.fail_next("delete")
        with pytest.raises(DriverError):
            caller.remove(rig.hosts[0], guest)
        caller.remove(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}
        assert list(rig.driver.list_volumes()) == []

    def test_many_callers_of_one_guest_make_one(self, rig: Rig, caller: Caller) -> None:
        """Threads that ask for one guest on all hosts at once get it once; only its host says yes."""
        guest = new_guest()

        def ask(number: int) -> HostAddress | None:
            host = rig.hosts[number % len(rig.hosts)]
            try:
                caller.run(host, guest)
            except DriverError:
                return None
            return host

        with ThreadPoolExecutor(THREADS) as threads:
            took = set(threads.map(ask, range(THREADS * 2))) - {None}
        there = guests_of(rig.driver)
        assert set(there) == {guest.uuid}
        assert {host.uuid for host in took if host} == {there[guest.uuid].host_uuid}
        assert len(list(rig.driver.list_volumes())) == 2

    def test_capacity_holds_against_many_callers(self, rig: Rig, caller: Caller) -> None:
        """A host that many threads fill at once runs what it has room for, and says transiently no to the rest."""
        guests = [new_guest() for _ in range(rig.room * 3)]

        def ask(guest: GuestSpec) -> DriverError | None:
            try:
                caller.run(rig.hosts[0], guest)
            except DriverError as error:
                return error
            return None

        with ThreadPoolExecutor(THREADS) as threads:
            answers = list(threads.map(ask, guests))
        running = [guest for guest in guests_of(rig.driver).values() if guest.power is PowerState.RUNNING]
        assert len(running) == answers.count(None) == rig.room
        assert all(answer.transient for answer in answers if answer is not None)

    @pytest.mark.parametrize("gone", ["stopped", "removed"])
    def test_room_comes_back(self, rig: Rig, caller: Caller, gone: str) -> None:
        """What a guest took is free again once it is stopped or removed."""
        guests = [new_guest() for _ in range(rig.room)]
        for guest in guests:
            caller.run(rig.hosts[0], guest)
        if gone == "stopped":
            caller.stop(rig.hosts[0], guests[0])
        else:
            caller.remove(rig.hosts[0], guests[0])
        caller.run(rig.hosts[0], new_guest())
        with pytest.raises(DriverError):
            caller.run(rig.hosts[0], new_guest())

    def test_opposite_calls_at_once_end_in_one_of_the_two(self, rig: Rig, caller: Caller) -> None:
        """Making and removing one guest at once leaves it whole, or nothing, and a host that adds up."""
        guest = new_guest()

        def ask(number: int) -> None:
            with suppress(DriverError):
                if number % 2:
                    caller.run(rig.hosts[0], guest)
                else:
                    caller.remove(None, guest)

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(ask, range(THREADS * 4)))
        there = guests_of(rig.driver)
        assert len(list(rig.driver.list_volumes())) == 2 * len(there)
        for _ in range(rig.room - len(there)):
            caller.run(rig.hosts[0], new_guest())
        with pytest.raises(DriverError):
            caller.run(rig.hosts[0], new_guest())


class FencingContract:
    """What a hypervisor that checks fences adds."""

    def test_an_overtaken_fence_is_refused(self, rig: Rig) -> None:
        """Every call with a lower fence than one seen for the guest is refused and changes nothing."""
        guest, late = new_guest(), Caller(rig.driver, fence=4)
        Caller(rig.driver, fence=5).run(rig.hosts[0], guest)
        before = guests_of(rig.driver)
        with pytest.raises(StaleFence):
            late.run(rig.hosts[0], guest)
        with pytest.raises(StaleFence):
            late.stop(rig.hosts[0], guest, forced=True)
        with pytest.raises(StaleFence):
            late.remove(None, guest)
        with pytest.raises(StaleFence):
            late.migrate(rig.hosts[0], rig.hosts[1], guest)
        with pytest.raises(StaleFence):
            late.look(rig.hosts[0], guest)
        with pytest.raises(StaleFence):
            late.scale(rig.hosts[0], replace(guest, cpu_number=2))
        with pytest.raises(StaleFence):
            late.devices(rig.hosts[0], replace(guest, nics=()))
        assert guests_of(rig.driver) == before

    def test_what_a_look_saw_stays_so_for_those_who_come_late(self, rig: Rig) -> None:
        """A start with a lower fence than that of the look does not bring the guest back."""
        guest = new_guest()
        assert Caller(rig.driver, fence=5).look(rig.hosts[0], guest) is None
        with pytest.raises(StaleFence):
            Caller(rig.driver, fence=4).run(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}

    def test_the_same_or_a_higher_fence_is_let_in(self, rig: Rig) -> None:
        """One lease calls as often as it likes, and the next lease takes over."""
        guest = new_guest()
        for fence in (3, 3, 4):
            Caller(rig.driver, fence=fence).run(rig.hosts[0], guest)
        Caller(rig.driver, fence=9).stop(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}

    @pytest.mark.parametrize("how", ["stop", "remove"])
    def test_fences_outlive_the_guest(self, rig: Rig, how: str) -> None:
        """A paused caller that wakes up after a removal (even of nothing) cannot make the guest anew."""
        guest, new = new_guest(), Caller(rig.driver, fence=2)
        if how == "stop":
            new.stop(rig.hosts[0], guest)
        else:
            new.remove(None, guest)
        with pytest.raises(StaleFence):
            Caller(rig.driver, fence=1).run(rig.hosts[0], guest)
        assert guests_of(rig.driver) == {}

    def test_a_refused_call_is_seen_too(self, rig: Rig) -> None:
        """A call that is refused for another reason still overtakes older fences."""
        guest, old = new_guest(), Caller(rig.driver, fence=1)
        old.run(rig.hosts[0], guest)
        with pytest.raises(DriverError):
            Caller(rig.driver, fence=2).run(rig.hosts[1], guest)
        with pytest.raises(StaleFence):
            old.stop(rig.hosts[0], guest)

    def test_fences_are_per_guest(self, rig: Rig) -> None:
        """A high fence of one guest says nothing about another."""
        Caller(rig.driver, fence=100).run(rig.hosts[0], new_guest())
        guest = new_guest()
        Caller(rig.driver, fence=1).run(rig.hosts[0], guest)
        assert guest.uuid in guests_of(rig.driver)
