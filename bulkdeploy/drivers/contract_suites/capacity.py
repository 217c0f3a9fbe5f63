"""The contract of hypervisors that reject guests beyond the capacity of a host, such as the simulator.

Other hypervisors accept guests until their memory is exhausted.
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
    """Assert that the host accepts exactly this number of further guests.

    The next guest must be rejected with a transient error.
    """
    for _ in range(guests):
        caller.run(host, rig.new_guest())
    with pytest.raises(DriverError) as refused:
        caller.run(host, rig.new_guest())
    assert refused.value.transient


class CapacityContract:
    """The contract that a host never runs more guests than it has capacity for, and that capacity is released.

    Subclasses define the fixtures ``rig``, ``caller`` and ``capacity``: the number of guests of ``rig.new_guest()``
    that each host can run, from 3 to 12. The driver must support live migration and live scaling.
    """

    def test_capacity_holds_against_many_callers(self, rig: Rig, caller: Caller, capacity: int) -> None:
        """If many threads start guests on one host, as many guests run as the host has capacity for.

        The other starts fail with a transient error.
        """
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
        """The capacity of a guest is available again after the guest is stopped or removed."""
        guests = [rig.new_guest() for _ in range(capacity)]
        for guest in guests:
            caller.run(rig.hosts[0], guest)
        if gone == "stopped":
            caller.stop(rig.hosts[0], guests[0])
        else:
            caller.remove(rig.hosts[0], guests[0])
        assert_has_capacity(rig, caller, rig.hosts[0], 1)

    def test_a_batch_fills_a_host_and_no_more(self, rig: Rig, capacity: int) -> None:
        """The guests of a batch that exceed the capacity fail with a transient error; the others run."""
        assert isinstance(rig.driver, BatchDriver)
        ends = begin(rig.driver, [start(rig.hosts[0], rig.new_guest()) for _ in range(capacity + 3)])
        assert ends.count(None) == capacity
        assert all(end.transient for end in ends if end is not None)

    def test_opposite_calls_at_once_leave_the_room_that_is_there(
        self, rig: Rig, caller: Caller, capacity: int
    ) -> None:
        """A guest that is started and removed concurrently uses capacity only if it exists afterwards."""
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
        """A migration releases the capacity of the source and uses capacity of the destination."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        assert_has_capacity(rig, caller, rig.hosts[0], capacity)
        assert_has_capacity(rig, caller, rig.hosts[1], capacity - 1)

    def test_a_full_host_takes_nobody(self, rig: Rig, caller: Caller, capacity: int) -> None:
        """A migration to a full host fails with a transient error, and the guest remains on its host."""
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
        """After concurrent migrations in both directions, the used capacity of each host matches its guests."""
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
        """A guest that grows and shrinks again uses only the capacity of its current size."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.scale(rig.hosts[0], replace(guest, cpu_number=2, memory_mib=2 * guest.memory_mib))
        caller.scale(rig.hosts[0], guest)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.power, there.cpu_number, there.memory_mib) == (PowerState.RUNNING, 1, guest.memory_mib)
        assert_has_capacity(rig, caller, rig.hosts[0], capacity - 1)
