"""Group commit for hypervisors: calls that gather while others are being sent are sent together.

One of the callers' own threads sends: the first one when nobody does, then the first of those that gathered. A call
that comes alone therefore does not wait (but for ``BatchDriver.gathering_s``), and batches are as large as the load
asks for. A hypervisor that takes long to be told keeps others waiting for PATIENCE_S: then the next batch is sent
beside it.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from threading import Lock
from typing import NoReturn

import structlog

from bulkdeploy import metrics
from bulkdeploy.drivers.batches import Answer, BatchDriver, GuestCall, host_name, make_call
from bulkdeploy.drivers.driver import DriverError

log = structlog.get_logger(__name__)

PATIENCE_S = 0.05


class _State(Enum):
    """Where a call is: it waits; its own thread is to send it, with others; another thread sends it."""

    GATHERED = auto()
    SENDS = auto()
    SENT = auto()


class _Entry:
    """A call on its way. Who takes it from those that gathered changes its state, then releases ``taken``, once."""

    __slots__ = ("answer", "call", "state", "taken")

    def __init__(self, call: GuestCall) -> None:
        self.call = call
        self.state = _State.GATHERED
        self.answer: Answer | None = None
        self.taken = Lock()
        self.taken.acquire()


class DriverBatches:
    """Sends calls to one driver. Safe to share between threads.

    Args:
        driver: where they are sent.
        timeout_s: how long one call may take, in seconds.
        patience_s: how long a batch that is being sent keeps the next one waiting, in seconds, beside gathering.
        gather: passes the time in which calls gather, in seconds.
    """

    def __init__(
        self,
        driver: BatchDriver,
        timeout_s: float,
        patience_s: float = PATIENCE_S,
        gather: Callable[[float], object] = time.sleep,
    ) -> None:
        self._driver, self._timeout_s, self._patience_s = driver, timeout_s, patience_s + driver.gathering_s
        self._gather = gather
        self._lock = Lock()
        self._gathered: deque[_Entry] = deque()
        self._sending = 0

    def waiting(self) -> int:
        """How many calls have gathered and are not being sent yet."""
        with self._lock:
            return len(self._gathered)

    def make(self, call: GuestCall) -> None:
        """Make one call, together with others; returns when it has ended.

        Raises:
            DriverError: it failed, it alone; or whatever the driver raised for it.
        """
        entry = _Entry(call)
        with self._lock:
            sends = not self._sending
            if sends:
                self._sending += 1
            else:
                self._gathered.append(entry)
        if sends and self._driver.gathering_s:
            self._gather(self._driver.gathering_s)
        if sends or self._is_to_send(entry):
            self._send(entry)
        if entry.answer is not None:
            entry.answer()

    def _is_to_send(self, entry: _Entry) -> bool:
        """Wait until the entry has its answer (False), or its thread is to send it, with others (True)."""
        if not entry.taken.acquire(timeout=self._patience_s):
            with self._lock:
                if entry.state is _State.GATHERED:
                    self._gathered.remove(entry)
                    self._sending += 1
                    return True
            entry.taken.acquire()  # taken a moment ago; now wait as long as it takes
        return entry.state is _State.SENDS

    def _send(self, entry: _Entry) -> None:
        """Send this entry and what has gathered; the next to send is the first of those that gathered meanwhile."""
        batch = [entry, *self._take(entry)]
        answers: Sequence[Answer] | None = None
        try:
            answers = self._begin([each.call for each in batch])
        finally:
            for number, each in enumerate(batch):
                each.answer = self._alone(each.call) if answers is None else answers[number]
                if each is not entry:
                    each.taken.release()
            with self._lock:
                self._sending -= 1
                if self._gathered and not self._sending:
                    self._sending += 1
                    following = self._gathered.popleft()
                    following.state = _State.SENDS
                    following.taken.release()

    def _take(self, first: _Entry) -> list[_Entry]:
        """What goes into a batch with ``first``; of calls for one guest only one, the others stay for the next."""
        guests = {first.call.guest_uuid}
        taken: list[_Entry] = []
        with self._lock:
            for entry in list(self._gathered):
                if 1 + len(taken) == self._driver.largest_batch:
                    break
                if entry.call.guest_uuid not in guests:
                    guests.add(entry.call.guest_uuid)
                    entry.state = _State.SENT
                    taken.append(entry)
            self._gathered = deque(entry for entry in self._gathered if entry.state is _State.GATHERED)
        return taken

    def _begin(self, calls: Sequence[GuestCall]) -> Sequence[Answer] | None:
        """The answers of a batch; None: make its calls one by one, so that the one to blame fails alone."""
        metrics.DRIVER_BATCH.observe(len(calls))
        try:
            answers = self._driver.begin(calls, timeout_s=self._timeout_s)
        except Exception as error:
            if len(calls) == 1:
                return [partial(_fail, error)]
            if isinstance(error, DriverError):
                return [partial(_fail, error.at(host_name(call))) for call in calls]
            log.exception("driver_defect", step="batch", calls=len(calls))
            return None
        if len(answers) != len(calls):
            log.error("driver_defect", step="batch", calls=len(calls), answers=len(answers))
            return None
        return answers

    def _alone(self, call: GuestCall) -> Answer:
        return partial(make_call, self._driver, call, self._timeout_s)


def _fail(error: Exception) -> NoReturn:
    raise error
