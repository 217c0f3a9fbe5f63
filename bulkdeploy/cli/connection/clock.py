"""The time by which calls wait."""

import time
from typing import Protocol


class Clock(Protocol):
    """Time, so that tests need not wait: seconds that only grow, and sleeping."""

    def now(self) -> float:
        """Return seconds since some fixed moment."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        time.sleep(max(seconds, 0.0))
