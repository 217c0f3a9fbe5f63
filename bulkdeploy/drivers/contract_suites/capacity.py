"""The contract of hypervisors that count capacity, as the simulator does.

Others promise until memory is exhausted.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from bulkdeploy.drivers.batches import BatchDriver
from bulkdeploy.drivers.contract_suites.batches import begin, start
from bulkdeploy.drivers.contract_suites.subjects import THREADS, Caller, Rig, guests_of
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress


def assert_has_capacity(rig: Rig, caller: Caller, host: HostAddress, guests: int) -> None:
    """The host takes so many more guests, and then transiently none."""
    for _ in range(guests):
        caller.run(host, rig.new_guest())
    with pytest.raises(DriverError) as refused:
        caller.run(host, rig.new_guest())
    assert refused.value.transient


class CapacityContract:
    """No host runs more guests than it has capacity for, and capacity is given back.

    Subclasses give the fixtures ``rig``, ``caller`` and ``room``: how many guests of ``rig.new_guest()`` each host
    holds, 3 to 12. Running guests move, grow and shrink.
    """

    def test_capacity_holds_against_many_callers(self, rig: Rig, caller: Caller, capacity: int) -> None:
        """A host that many threads fill at once runs what it has room for, and says transiently no to the rest."""
        guests = [rig.new_guest() for _ in range(capacity * 3)]

        def request(guest: GuestSpec) -> DriverError | None:
            try:
                caller.run(rig.hosts[0], guest)
            except DriverError as error:
                return error
            return None

        with ThreadPoolExecutor(THREADS) as threads:
            answers = list(threads.map(request, guests))
        running = [guest for guest in guests_of(rig.driver).values() if guest.power is PowerState.RUNNING]
        assert len(running) == answers.count(None) == capacity
        assert all(answer.transient for answer in answers if answer is not None)

    @pytest.mark.parametrize("gone", ["stopped", "removed"])
    def test_room_comes_back(self, rig: Rig, caller: Caller, capacity: int, gone: str) -> None:
        """The capacity of a guest is free again once the guest is stopped or removed."""
        guests = [rig.new_guest() for _ in range(capacity)]
        for guest in guests:
            caller.run(rig.hosts[0], guest)
        if gone == "stopped":
            caller.stop(rig.hosts[0], guests[0])
        else:
            caller.remove(rig.hosts[0], guests[0])
        assert_has_capacity(rig, caller, rig.hosts[0], 1)

    def test_a_batch_fills_a_host_and_no_more(self, rig: Rig, capacity: int) -> None:
        """Guests for which there is no capacity fail with a transient error; the others run."""
        assert isinstance(rig.driver, BatchDriver)
        ends = begin(rig.driver, [start(rig.hosts[0], rig.new_guest()) for _ in range(capacity + 3)])
        assert ends.count(None) == capacity
        assert all(end.transient for end in ends if end is not None)

    def test_opposite_calls_at_once_leave_the_room_that_is_there(
        self, rig: Rig, caller: Caller, capacity: int
    ) -> None:
        """A guest that is made and removed at once takes one place, or none."""
        guest = rig.new_guest()

        def request(number: int) -> None:
            with suppress(DriverError):
                if number % 2:
                    caller.run(rig.hosts[0], guest)
                else:
                    caller.remove(None, guest)

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(request, range(THREADS * 4)))
        assert_has_capacity(rig, caller, rig.hosts[0], capacity - len(guests_of(rig.driver)))

    def test_a_move_takes_its_room_along(self, rig: Rig, caller: Caller, capacity: int) -> None:
        """The source has it again, the destination has it no more."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        assert_has_capacity(rig, caller, rig.hosts[0], capacity)
        assert_has_capacity(rig, caller, rig.hosts[1], capacity - 1)

    def test_a_full_host_takes_nobody(self, rig: Rig, caller: Caller, capacity: int) -> None:
        """A destination without room refuses, transiently, and the guest stays where it is."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        for _ in range(capacity):
            caller.run(rig.hosts[1], rig.new_guest())
        with pytest.raises(DriverError) as refused:
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        assert refused.value.transient
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[0].uuid

    def test_guests_that_change_places_at_once_leave_both_hosts_adding_up(
        self, rig: Rig, caller: Caller, capacity: int
    ) -> None:
        """When moves in both directions meet, each host has capacity for the guests that it does not run."""
        guests = [rig.new_guest() for _ in range(capacity)]
        for guest in guests:
            caller.run(rig.hosts[0], guest)

        def request(number: int) -> None:
            one, other = rig.hosts[number // 2 % 2], rig.hosts[1 - number // 2 % 2]
            with suppress(DriverError):
                caller.migrate(one, other, guests[number % len(guests)])

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(request, range(THREADS * 4)))
        for host in rig.hosts[:2]:
            there = sum(guest.host_uuid == host.uuid for guest in guests_of(rig.driver).values())
            assert_has_capacity(rig, caller, host, capacity - there)

    def test_a_running_guest_shrinks_and_gives_room(self, rig: Rig, caller: Caller, capacity: int) -> None:
        """Grown, it takes the room of two; back at its sizes, that of one."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.scale(rig.hosts[0], replace(guest, cpu_number=2, memory_mib=2 * guest.memory_mib))
        caller.scale(rig.hosts[0], guest)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.power, there.cpu_number, there.memory_mib) == (PowerState.RUNNING, 1, guest.memory_mib)
        assert_has_capacity(rig, caller, rig.hosts[0], capacity - 1)
