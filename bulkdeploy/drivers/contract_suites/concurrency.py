"""The contract of every driver for concurrent calls: each call changes only its own guest."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from bulkdeploy.drivers.contract_suites.subjects import THREADS, Caller, Rig, guests_of, volume_uuids
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAddress


class ConcurrencyContract:
    """The contract for concurrent calls and for the undoing of failed starts.

    It is a part of ``DriverContract``, which defines the fixtures ``rig`` and ``caller``.
    """

    def test_undoing_a_start_touches_no_other_guest(self, rig: Rig, caller: Caller) -> None:
        """The removal of a guest after its failed start changes no other guest and no volume of another guest."""
        other = rig.new_guest()
        caller.run(rig.hosts[0], other)
        for step in rig.start_steps:
            guest = rig.new_guest()
            rig.fail_next(step)
            with pytest.raises(DriverError):
                caller.run(rig.hosts[0], guest)
            caller.remove(rig.hosts[0], guest)
            (there,) = guests_of(rig.driver).values()
            assert (there.uuid, there.power) == (other.uuid, PowerState.RUNNING)
            assert rig.volumes() == set(volume_uuids(other))

    def test_guests_that_come_and_go_at_once_are_strangers(self, rig: Rig, caller: Caller) -> None:
        """Guests that are created while others are removed have only their own volumes."""
        old, new = ([rig.new_guest() for _ in range(3)] for _ in range(2))
        for guest in old:
            caller.run(rig.hosts[0], guest)

        def request(number: int) -> None:
            if number % 2:
                caller.run(rig.hosts[0], new[number // 2])
            else:
                caller.remove(rig.hosts[0], old[number // 2])

        with ThreadPoolExecutor(2 * len(old)) as threads:
            list(threads.map(request, range(2 * len(old))))
        there = guests_of(rig.driver)
        assert {uuid: (one.power, one.volume_uuids) for uuid, one in there.items()} == {
            guest.uuid: (PowerState.RUNNING, frozenset(volume_uuids(guest))) for guest in new
        }
        assert rig.volumes() == {volume for guest in new for volume in volume_uuids(guest)}

    def test_many_callers_of_one_guest_make_one(self, rig: Rig, caller: Caller) -> None:
        """If threads start one guest on all hosts, the guest exists once, and only calls for its host succeed."""
        guest = rig.new_guest()

        def request(number: int) -> HostAddress | None:
            host = rig.hosts[number % len(rig.hosts)]
            try:
                caller.run(host, guest)
            except DriverError:
                return None
            return host

        with ThreadPoolExecutor(THREADS) as threads:
            took = set(threads.map(request, range(THREADS * 2))) - {None}
        there = guests_of(rig.driver)
        assert set(there) == {guest.uuid}
        assert {host.uuid for host in took if host} == {there[guest.uuid].host_uuid}
        assert rig.volumes() == set(volume_uuids(guest))

    def test_opposite_calls_at_once_end_in_one_of_the_two(self, rig: Rig, caller: Caller) -> None:
        """If a guest is started and removed concurrently, it exists with all its volumes, or nothing exists."""
        guest = rig.new_guest()

        def request(number: int) -> None:
            with suppress(DriverError):
                if number % 2:
                    caller.run(rig.hosts[0], guest)
                else:
                    caller.remove(None, guest)

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(request, range(THREADS * 4)))
        assert len(rig.volumes()) == rig.subjects.volumes * len(guests_of(rig.driver))
