"""Drivers that wait where a test wants them to."""

from threading import Event, Semaphore
from typing import Any

from bulkdeploy.drivers.errors import DriverError
from tests.support.runs.waiting import PATIENCE_S


class GatedDriver:
    """The given driver, but ``ensure_running`` tells that it was called and waits for the gate.

    Args:
        driver: what does the work.
        before: wait before the work is done (else after it).
    """

    def __init__(self, driver: Any, *, before: bool = True) -> None:
        self._driver, self._before = driver, before
        self.entered, self.gate = Event(), Event()
        self.calls = 0
        self._waiting = Semaphore(0)

    def wait_for(self, calls: int) -> None:
        """Wait until so many more calls wait for the gate."""
        for _ in range(calls):
            if not self._waiting.acquire(timeout=PATIENCE_S):
                raise AssertionError("the calls did not come")

    def ensure_running(self, *arguments: Any, **named: Any) -> None:
        """See above."""
        self.calls += 1
        if not self._before:
            self._driver.ensure_running(*arguments, **named)
        self.entered.set()
        self._waiting.release()
        if not self.gate.wait(PATIENCE_S):
            raise AssertionError("nobody opened the gate")
        if self._before:
            self._driver.ensure_running(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._driver, name)


class GatedMigration(GatedDriver):
    """The given driver, but ``ensure_migrated`` waits for the gate, the first time."""

    def ensure_running(self, *arguments: Any, **named: Any) -> None:
        """Nothing special."""
        self._driver.ensure_running(*arguments, **named)

    def ensure_migrated(self, *arguments: Any, **named: Any) -> None:
        """See above."""
        self.calls += 1
        if self.calls > 1:
            self._driver.ensure_migrated(*arguments, **named)
            return
        if not self._before:
            self._driver.ensure_migrated(*arguments, **named)
        self.entered.set()
        if not self.gate.wait(PATIENCE_S):
            raise AssertionError("nobody opened the gate")
        if self._before:
            self._driver.ensure_migrated(*arguments, **named)


class BrokenDriver:
    """A driver with a defect: starting a guest raises something that is no DriverError."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def ensure_running(self, *arguments: Any, **named: Any) -> None:
        """Raise."""
        del arguments, named
        raise ZeroDivisionError("a defect")

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._driver, name)


class ForgetfulDriver:
    """A driver whose hypervisor compares no fences: every call to remove has a higher one than was seen."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def ensure_absent(self, *arguments: Any, fence: int, **named: Any) -> None:
        """Remove, whatever the fence."""
        self._driver.ensure_absent(*arguments, fence=fence + 1_000_000, **named)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._driver, name)


class GatedDevices(GatedMigration):
    """The given driver, but ``ensure_devices`` waits for the gate, the first time."""

    def ensure_devices(self, *arguments: Any, **named: Any) -> None:
        """See above."""
        self.calls += 1
        if self.calls == 1:
            self.entered.set()
            if not self.gate.wait(PATIENCE_S):
                raise AssertionError("nobody opened the gate")
        self._driver.ensure_devices(*arguments, **named)


class UnheardDevices:
    """The given driver, but nobody hears that the first calls of ``ensure_devices`` did their work."""

    def __init__(self, driver: Any, calls: int) -> None:
        self._driver, self._calls = driver, calls

    def ensure_devices(self, host: Any, *arguments: Any, **named: Any) -> None:
        """Do it, and say nothing."""
        self._driver.ensure_devices(host, *arguments, **named)
        self._calls -= 1
        if self._calls >= 0:
            raise DriverError("devices", host.name, "no answer", transient=True, unanswered=True)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._driver, name)
