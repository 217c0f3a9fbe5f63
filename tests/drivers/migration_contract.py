"""What any driver must keep when running guests move or grow; mixed into the subclass of ``DriverContract``."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from bulkdeploy.drivers.driver import DriverError, PowerState
from tests.drivers.contract import THREADS, Rig
from tests.drivers.subjects import Caller, guests_of, new_guest, volume_uuids


class MigrationContract:
    """A moved guest is on one host at every moment, with what it had."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_moved_guest_runs_there_and_only_there(self, rig: Rig, caller: Caller, times: int) -> None:
        """It keeps sizes and volumes; asking again changes nothing; the source's room is free again."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        for _ in range(times):
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.host_uuid, there.power) == (rig.hosts[1].uuid, PowerState.RUNNING)
        assert (there.cpu_number, there.cpu_mhz, there.memory_mib) == (1, 500, 256)
        assert there.volume_uuids == set(volume_uuids(guest))
        for _ in range(rig.room):
            caller.run(rig.hosts[0], new_guest())

    def test_a_move_is_undone_by_its_opposite(self, rig: Rig, caller: Caller) -> None:
        """Whether the move was made or not, the opposite call leaves the guest at the source."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        for move_first in (False, True):
            if move_first:
                caller.migrate(rig.hosts[0], rig.hosts[1], guest)
            caller.migrate(rig.hosts[1], rig.hosts[0], guest)
            assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[0].uuid

    def test_a_failed_move_leaves_it_running(self, rig: Rig, caller: Caller) -> None:
        """The guest runs where it ran, and the same call moves it later."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        rig.fail_next("migrate")
        with pytest.raises(DriverError) as failed:
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        assert (failed.value.step, failed.value.host) == ("migrate", rig.hosts[1].name)
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[0].uuid
        caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid

    @pytest.mark.parametrize("before", ["never was", "stopped", "removed"])
    def test_what_does_not_run_is_not_moved(self, rig: Rig, caller: Caller, before: str) -> None:
        """Moving what is not there is an error that stays, and makes nothing."""
        guest = new_guest()
        if before != "never was":
            caller.run(rig.hosts[0], guest)
            caller.stop(rig.hosts[0], guest)
        if before == "removed":
            caller.remove(None, guest)
        with pytest.raises(DriverError) as refused:
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        assert not refused.value.transient
        assert guests_of(rig.driver) == {}

    def test_a_full_host_takes_nobody(self, rig: Rig, caller: Caller) -> None:
        """A destination without room refuses, transiently, and the guest stays where it is."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        for _ in range(rig.room):
            caller.run(rig.hosts[1], new_guest())
        with pytest.raises(DriverError) as refused:
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        assert refused.value.transient
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[0].uuid

    def test_a_scaled_guest_has_its_sizes_and_room(self, rig: Rig, caller: Caller) -> None:
        """It runs on with the new sizes, asked once or often; a failed call leaves the old; back it gives room."""
        guest = new_guest()
        larger = replace(guest, cpu_number=2, memory_mib=512)
        caller.run(rig.hosts[0], guest)
        rig.fail_next("scale")
        with pytest.raises(DriverError) as failed:
            caller.scale(rig.hosts[0], larger)
        assert (failed.value.step, guests_of(rig.driver)[guest.uuid].cpu_number) == ("scale", 1)
        for _ in range(2):
            caller.scale(rig.hosts[0], larger)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.power, there.cpu_number, there.memory_mib) == (PowerState.RUNNING, 2, 512)
        caller.scale(rig.hosts[0], guest)
        for _ in range(rig.room - 1):
            caller.run(rig.hosts[0], new_guest())
        with pytest.raises(DriverError):
            caller.run(rig.hosts[0], new_guest())

    def test_what_does_not_run_is_not_scaled(self, rig: Rig, caller: Caller) -> None:
        """A guest that is not there, or on another host, is an error that stays."""
        guest = new_guest()
        for where in (0, 1):
            with pytest.raises(DriverError) as refused:
                caller.scale(rig.hosts[0], guest)
            assert not refused.value.transient
            if where == 0:
                caller.run(rig.hosts[1], guest)

    def test_guests_that_change_places_at_once(self, rig: Rig, caller: Caller) -> None:
        """Threads that move guests both ways between two hosts end, and both hosts add up."""
        guests = [new_guest() for _ in range(rig.room)]
        for guest in guests:
            caller.run(rig.hosts[0], guest)

        def ask(number: int) -> None:
            one, other = rig.hosts[number // 2 % 2], rig.hosts[1 - number // 2 % 2]
            with suppress(DriverError):
                caller.migrate(one, other, guests[number % len(guests)])

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(ask, range(THREADS * 4)))
        assert {guest.power for guest in guests_of(rig.driver).values()} == {PowerState.RUNNING}
        for host in rig.hosts[:2]:
            there = sum(guest.host_uuid == host.uuid for guest in guests_of(rig.driver).values())
            for _ in range(rig.room - there):
                caller.run(host, new_guest())
            with pytest.raises(DriverError):
                caller.run(host, new_guest())
