"""The clock that calls use to measure time and to wait."""

import time
from typing import Protocol


class Clock(Protocol):
    """A clock that measures and waits. Tests use clocks that do not really wait."""

    def now(self) -> float:
        """Return the seconds since an arbitrary fixed time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the seconds of the system's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds. A negative number does not wait."""
        time.sleep(max(seconds, 0.0))
