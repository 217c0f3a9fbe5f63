"""The contract of drivers that migrate running guests."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.contract_suites.subjects import (
    THREADS,
    AbilityContract,
    Caller,
    Rig,
    guests_of,
    volume_uuids,
)
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState

MOVING = 5
"""The number of guests that migrate concurrently."""


class MigrationContract(AbilityContract, of=LiveMigration):
    """The contract that a migrating guest is on exactly one host, with its sizes and volumes."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_moved_guest_runs_there_and_only_there(self, rig: Rig, caller: Caller, times: int) -> None:
        """A migrated guest runs on the destination with its sizes and volumes. The call may be repeated."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        for _ in range(times):
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.host_uuid, there.power) == (rig.hosts[1].uuid, PowerState.RUNNING)
        assert (there.cpu_number, there.cpu_mhz, there.memory_mib) == (
            guest.cpu_number,
            guest.cpu_mhz,
            guest.memory_mib,
        )
        assert there.volume_uuids == set(volume_uuids(guest))

    def test_a_move_is_undone_by_its_opposite(self, rig: Rig, caller: Caller) -> None:
        """The opposite migration leaves the guest at the source, whether the guest was migrated or not."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        for move_first in (False, True):
            if move_first:
                caller.migrate(rig.hosts[0], rig.hosts[1], guest)
            caller.migrate(rig.hosts[1], rig.hosts[0], guest)
            assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[0].uuid

    def test_a_failed_move_leaves_it_running(self, rig: Rig, caller: Caller) -> None:
        """After a failed migration, the guest runs on its source, and the same call succeeds later."""
        guest = rig.new_guest()
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
        """The migration of a guest that does not run is a permanent error and creates nothing."""
        guest = rig.new_guest()
        if before != "never was":
            caller.run(rig.hosts[0], guest)
            caller.stop(rig.hosts[0], guest)
        if before == "removed":
            caller.remove(None, guest)
        with pytest.raises(DriverError) as refused:
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
        assert not refused.value.transient
        assert guests_of(rig.driver) == {}

    def test_guests_that_change_places_at_once(self, rig: Rig, caller: Caller) -> None:
        """Concurrent migrations in both directions between two hosts end, and each guest runs."""
        guests = [rig.new_guest() for _ in range(MOVING)]
        for guest in guests:
            caller.run(rig.hosts[0], guest)

        def request(number: int) -> None:
            one, other = rig.hosts[number // 2 % 2], rig.hosts[1 - number // 2 % 2]
            with suppress(DriverError):
                caller.migrate(one, other, guests[number % len(guests)])

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(request, range(THREADS * 4)))
        there = guests_of(rig.driver)
        assert set(there) == {guest.uuid for guest in guests}
        assert {guest.power for guest in there.values()} == {PowerState.RUNNING}
