"""Calls that gather while others are being sent are sent together, and each ends for itself."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event, Lock
from typing import Any
from uuid import UUID, uuid4

import pytest

from bulkdeploy.drivers.batches import Answer, BatchDriver, GuestCall, RemoveCall
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.provisioning.driver_batches import DriverBatches

TIMEOUT_S = 60.0
FOR_EVER_S = 3600.0
CALLERS = 12


def removal(host: str = "alpha", guest: UUID | None = None) -> RemoveCall:
    """A call for a guest, a new one if none is named."""
    return RemoveCall(HostAddress(uuid4(), host, "192.0.2.1", "KVM"), guest or uuid4(), (), 1)


def _nothing(call: Any) -> None:
    del call


def _unused(*arguments: Any, **named: Any) -> Any:
    raise AssertionError(f"not asked for here: {arguments}, {named}")


class Telegraph(BatchDriver):
    """A driver that notes every batch.

    Args:
        tell: what happens while a batch is being sent.
        end: what happens while one call's answer is waited for.
    """

    from_options = admit_host = power_of = ensure_volume_absent = _unused
    ensure_copy_gone = list_guests = list_volumes = _unused

    def __init__(
        self,
        tell: Callable[[Sequence[GuestCall]], None] = _nothing,
        end: Callable[[GuestCall], None] = _nothing,
    ) -> None:
        self._report, self._end = tell, end
        self._noting = Lock()
        self.batches: list[list[UUID]] = []

    def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        """Note, tell, and give an answer for each."""
        assert timeout_s == TIMEOUT_S
        with self._noting:
            self.batches.append([call.guest_uuid for call in calls])
        self._report(calls)
        return [partial(self._end, call) for call in calls]


class Gate:
    """Keeps the first batch until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = Event(), Event()

    def __call__(self, calls: Sequence[GuestCall]) -> None:
        """Wait, the first time."""
        del calls
        if not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(TIMEOUT_S)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that make calls."""
    with ThreadPoolExecutor(2 * CALLERS) as pool:
        yield pool


def make_while_the_first_is_sent(
    threads: ThreadPoolExecutor, gate: Gate, batches: DriverBatches, calls: Sequence[RemoveCall]
) -> list[Future[None]]:
    """Make the first call, all others while it is being sent, and let it go on when they have gathered."""
    made = [threads.submit(batches.make, calls[0])]
    assert gate.reached.wait(TIMEOUT_S)
    made += [threads.submit(batches.make, call) for call in calls[1:]]
    deadline = time.monotonic() + TIMEOUT_S
    while batches.waiting() < len(calls) - 1:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    gate.opened.set()
    return made


def test_a_single_call_is_sent_at_once() -> None:
    """It is sent at once, by itself."""
    driver = Telegraph()
    batches = DriverBatches(driver, TIMEOUT_S, FOR_EVER_S)
    calls = [removal() for _ in range(3)]
    for call in calls:
        batches.make(call)
    assert driver.batches == [[call.guest_uuid] for call in calls]


def test_what_gathers_goes_together(threads: ThreadPoolExecutor) -> None:
    """All that came while the first was being sent are one batch."""
    gate = Gate()
    driver = Telegraph(gate)
    calls = [removal() for _ in range(CALLERS)]
    batches = DriverBatches(driver, TIMEOUT_S, FOR_EVER_S)
    for made in make_while_the_first_is_sent(threads, gate, batches, calls):
        made.result(TIMEOUT_S)
    first, second = driver.batches
    assert first == [calls[0].guest_uuid]
    assert sorted(second) == sorted(call.guest_uuid for call in calls[1:])


def test_a_driver_may_have_calls_gather_before_the_first_is_sent(threads: ThreadPoolExecutor) -> None:
    """Where a request costs much, all that come meanwhile are in the first batch."""
    driver, all_came = Telegraph(), Event()
    driver.gathering_s = 0.5  # type: ignore[misc]
    calls = [removal() for _ in range(CALLERS)]
    batches = DriverBatches(driver, TIMEOUT_S, FOR_EVER_S, lambda _: all_came.wait(TIMEOUT_S))
    first = threads.submit(batches.make, calls[0])
    others = [threads.submit(batches.make, call) for call in calls[1:]]
    while batches.waiting() < CALLERS - 1:
        time.sleep(0.001)
    all_came.set()
    for made in (first, *others):
        made.result(TIMEOUT_S)
    (only,) = driver.batches
    assert sorted(only) == sorted(call.guest_uuid for call in calls)


def test_no_batch_is_larger_than_the_driver_takes(threads: ThreadPoolExecutor) -> None:
    """More than that go in several, and nobody is forgotten."""
    gate = Gate()
    driver = Telegraph(gate)
    driver.largest_batch = 4  # type: ignore[misc]
    calls = [removal() for _ in range(CALLERS)]
    batches = DriverBatches(driver, TIMEOUT_S, FOR_EVER_S)
    for made in make_while_the_first_is_sent(threads, gate, batches, calls):
        made.result(TIMEOUT_S)
    assert [len(batch) for batch in driver.batches] == [1, 4, 4, 3]


def test_calls_for_one_guest_are_never_in_one_batch(threads: ThreadPoolExecutor) -> None:
    """They go one after the other; calls for other guests go with either."""
    gate = Gate()
    driver = Telegraph(gate)
    guest = uuid4()
    calls = [removal(), *(removal(guest=guest) for _ in range(3)), removal()]
    batches = DriverBatches(driver, TIMEOUT_S, FOR_EVER_S)
    for made in make_while_the_first_is_sent(threads, gate, batches, calls):
        made.result(TIMEOUT_S)
    assert [batch.count(guest) for batch in driver.batches] == [0, 1, 1, 1]
    assert sum(map(len, driver.batches)) == len(calls)


def test_a_slow_batch_does_not_delay_other_batches(threads: ThreadPoolExecutor) -> None:
    """While one batch hangs others are sent beside it."""
    gate = Gate()
    batches = DriverBatches(Telegraph(gate), TIMEOUT_S, 0.01)
    stuck = threads.submit(batches.make, removal())
    assert gate.reached.wait(TIMEOUT_S)
    for made in [threads.submit(batches.make, removal()) for _ in range(CALLERS)]:
        made.result(TIMEOUT_S)
    assert not stuck.done()
    gate.opened.set()
    stuck.result(TIMEOUT_S)


def test_no_guest_waits_for_another(threads: ThreadPoolExecutor) -> None:
    """What takes time for each guest passes in its caller's own thread: all of a batch wait at the same time."""
    gate, everybody = Gate(), Barrier(CALLERS, timeout=TIMEOUT_S)

    def end(_: GuestCall) -> None:
        everybody.wait()

    driver = Telegraph(gate, end)
    calls = [removal() for _ in range(CALLERS)]
    batches = DriverBatches(driver, TIMEOUT_S, FOR_EVER_S)
    for made in make_while_the_first_is_sent(threads, gate, batches, calls):
        made.result(TIMEOUT_S)
    assert [len(batch) for batch in driver.batches] == [1, CALLERS - 1]


def test_one_that_fails_fails_alone(threads: ThreadPoolExecutor) -> None:
    """Its error is its own; the others of the batch succeed."""
    gate = Gate()
    calls = [removal() for _ in range(CALLERS)]
    wrong = calls[CALLERS // 2]

    def end(call: GuestCall) -> None:
        if call is wrong:
            raise DriverError("delete", "alpha", "the disk array is on fire", transient=True)

    batches = DriverBatches(Telegraph(gate, end), TIMEOUT_S, FOR_EVER_S)
    made = make_while_the_first_is_sent(threads, gate, batches, calls)
    errors = [one.exception(TIMEOUT_S) for one in made]
    assert [call for call, error in zip(calls, errors, strict=True) if error is not None] == [wrong]


def test_a_lost_answer_is_lost_for_each(threads: ThreadPoolExecutor) -> None:
    """A batch of which nobody knows what became ends each of its calls as unanswered, at the call's own host."""
    gate = Gate()

    def tell(calls: Sequence[GuestCall]) -> None:
        gate(calls)
        if len(calls) > 1:
            raise DriverError("connect", "any host", "the line is dead", transient=True, unanswered=True)

    calls = [removal(host) for host in ("alpha", "beta", "gamma")]
    batches = DriverBatches(Telegraph(tell), TIMEOUT_S, FOR_EVER_S)
    first, *others = make_while_the_first_is_sent(threads, gate, batches, calls)
    assert first.exception(TIMEOUT_S) is None
    errors = [made.exception(TIMEOUT_S) for made in others]
    assert [(type(error), error.host, error.unanswered) for error in errors if isinstance(error, DriverError)] == [
        (DriverError, "beta", True),
        (DriverError, "gamma", True),
    ]


@pytest.mark.parametrize("answers", ["raises", "forgets one"])
def test_a_call_that_breaks_the_driver_breaks_no_other(threads: ThreadPoolExecutor, answers: str) -> None:
    """A batch that ends in a defect is made anew one by one, and the one to blame alone has the defect."""
    gate = Gate()
    calls = [removal() for _ in range(CALLERS)]
    wrong = calls[1]

    def tell(reported: Sequence[GuestCall]) -> None:
        gate(reported)
        if answers == "raises" and any(call.guest_uuid == wrong.guest_uuid for call in reported):
            raise ZeroDivisionError("a defect")

    class Forgetful(Telegraph):
        """Gives one answer too few where several were wanted."""

        def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
            """See above."""
            given = super().begin(calls, timeout_s=timeout_s)
            return given[1:] if answers == "forgets one" and len(calls) > 1 else given

    batches = DriverBatches(Forgetful(tell), TIMEOUT_S, FOR_EVER_S)
    made = make_while_the_first_is_sent(threads, gate, batches, calls)
    errors = {call.guest_uuid: one.exception(TIMEOUT_S) for call, one in zip(calls, made, strict=True)}
    broken = {guest for guest, error in errors.items() if isinstance(error, ZeroDivisionError)}
    assert broken == ({wrong.guest_uuid} if answers == "raises" else set())
    assert sum(error is not None for error in errors.values()) == len(broken)


def test_every_call_of_many_threads_is_sent_once(threads: ThreadPoolExecutor) -> None:
    """However calls meet, each is in one batch, and its thread gets its own answer."""
    ended: set[UUID] = set()
    noting = Lock()

    def end(call: GuestCall) -> None:
        with noting:
            ended.add(call.guest_uuid)

    driver = Telegraph(lambda _: time.sleep(0.001), end)
    batches = DriverBatches(driver, TIMEOUT_S, 0.002)

    def make(call: RemoveCall) -> bool:
        batches.make(call)
        with noting:
            return call.guest_uuid in ended

    calls = [removal() for _ in range(600)]
    assert all(threads.map(make, calls))
    sent = [guest for batch in driver.batches for guest in batch]
    assert sorted(sent) == sorted(call.guest_uuid for call in calls)
    assert batches.waiting() == 0
