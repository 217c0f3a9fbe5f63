"""The contract of drivers that accept many calls at once: each call ends as it would end alone."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from bulkdeploy.drivers.batches import Answer, BatchDriver, GuestCall, RemoveCall, StartCall, StopCall
from bulkdeploy.drivers.contract_suites.subjects import PATIENCE_S, THREADS, Rig, guests_of, volume_uuids
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress

MANY = 16
"""The number of guests in one batch, which are placed on two hosts."""


def begin(driver: BatchDriver, calls: Sequence[GuestCall]) -> list[DriverError | None]:
    """Run a batch of calls, and return the error of each call in order, or None for a call that succeeded."""
    answers = driver.begin(calls, timeout_s=PATIENCE_S)
    assert len(answers) == len(calls)
    return [_end(answer) for answer in answers]


def _end(answer: Answer) -> DriverError | None:
    try:
        answer()
    except DriverError as error:
        return error
    return None


def start(host: HostAddress, guest: GuestSpec, fence: int = 1) -> StartCall:
    """Return a call to start a guest."""
    return StartCall(host, guest, fence)


def remove(host: HostAddress | None, guest: GuestSpec, fence: int = 1) -> RemoveCall:
    """Return a call to remove a guest and its volumes."""
    return RemoveCall(host, guest.uuid, tuple(volume_uuids(guest)), fence)


class BatchContract:
    """The contract of ``BatchDriver``: a batch does what its calls would do one by one, in any order."""

    @pytest.fixture
    def batches(self, rig: Rig) -> BatchDriver:
        """Return the driver under test."""
        assert isinstance(rig.driver, BatchDriver)
        return rig.driver

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_batch_makes_all_its_guests(self, rig: Rig, batches: BatchDriver, times: int) -> None:
        """Each guest of a batch runs on its own host with its own volumes, also if the batch is repeated.

        A batch of removals removes all guests and volumes, also if it is repeated.
        """
        placed = [(rig.hosts[number % 2], rig.new_guest()) for number in range(MANY)]
        for _ in range(times):
            assert begin(batches, [start(host, guest) for host, guest in placed]) == [None] * MANY
        there = guests_of(rig.driver)
        assert {uuid: guest.host_uuid for uuid, guest in there.items()} == {
            guest.uuid: host.uuid for host, guest in placed
        }
        assert all(there[guest.uuid].volume_uuids == set(volume_uuids(guest)) for _, guest in placed)
        for _ in range(times):
            assert begin(batches, [remove(host, guest) for host, guest in placed]) == [None] * MANY
        assert (guests_of(rig.driver), rig.volumes()) == ({}, set())

    def test_calls_of_all_kinds_go_together(self, rig: Rig, batches: BatchDriver) -> None:
        """Starts, stops and removals, with and without a host, succeed in one batch."""
        host, (new, stopped, removed, lost) = rig.hosts[0], [rig.new_guest() for _ in range(4)]
        assert begin(batches, [start(host, guest) for guest in (stopped, removed, lost)]) == [None] * 3
        calls: list[GuestCall] = [
            StopCall(host, stopped.uuid, forced=False, fence=1),
            start(host, new),
            remove(host, removed),
            remove(None, lost),
        ]
        assert begin(batches, calls) == [None] * 4
        assert set(guests_of(rig.driver)) == {new.uuid}
        assert rig.volumes() == {*volume_uuids(new), *volume_uuids(stopped)}

    def test_one_that_fails_fails_alone(self, rig: Rig, batches: BatchDriver) -> None:
        """If one call of a batch fails, the other guests run.

        The error names the host and the step of the failed call. The same call succeeds later.
        """
        placed = [(rig.hosts[number % 2], rig.new_guest()) for number in range(4)]
        rig.fail_next(rig.start_steps[-1])
        ends = begin(batches, [start(host, guest) for host, guest in placed])
        (failed,) = [number for number, end in enumerate(ends) if end is not None]
        host, guest = placed[failed]
        error = ends[failed]
        assert error is not None
        assert (error.step, error.host) == (rig.start_steps[-1], host.name)
        running = {uuid for uuid, one in guests_of(rig.driver).items() if one.power is PowerState.RUNNING}
        assert running == {one.uuid for _, one in placed} - {guest.uuid}
        assert begin(batches, [start(host, guest)]) == [None]

    def test_one_that_is_refused_is_refused_alone(self, rig: Rig, batches: BatchDriver) -> None:
        """A guest that runs on another host stays there, and the other calls of the batch succeed."""
        here, there = rig.hosts[:2]
        elsewhere, one, other = (rig.new_guest() for _ in range(3))
        assert begin(batches, [start(there, elsewhere)]) == [None]
        first, refused, last = begin(batches, [start(here, guest) for guest in (one, elsewhere, other)])
        assert (first, last) == (None, None)
        assert refused is not None
        assert (refused.host, refused.transient) == (here.name, False)
        assert guests_of(rig.driver)[elsewhere.uuid].host_uuid == there.uuid

    def test_the_largest_batch_is_taken(self, rig: Rig, batches: BatchDriver) -> None:
        """A driver accepts as many calls as it declares, here for guests that never existed."""
        calls = [remove(None, rig.new_guest()) for _ in range(batches.largest_batch)]
        assert begin(batches, calls) == [None] * batches.largest_batch

    def test_batches_that_meet_make_each_guest_once(self, rig: Rig, batches: BatchDriver) -> None:
        """If threads start the same guests in different orders, all calls succeed and each guest exists once."""
        placed = [(rig.hosts[number % 2], rig.new_guest()) for number in range(MANY)]

        def request(number: int) -> list[DriverError | None]:
            turned = placed[number % MANY :] + placed[: number % MANY]
            ordered = turned if number % 2 else turned[::-1]
            return begin(batches, [start(host, guest) for host, guest in ordered])

        with ThreadPoolExecutor(THREADS) as threads:
            ends = list(threads.map(request, range(THREADS)))
        assert ends == [[None] * MANY] * THREADS
        there = guests_of(rig.driver)
        assert {uuid: guest.host_uuid for uuid, guest in there.items()} == {
            guest.uuid: host.uuid for host, guest in placed
        }
        assert len(rig.volumes()) == 2 * MANY
