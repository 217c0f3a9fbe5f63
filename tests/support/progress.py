"""How tests wait for what takes a while, and what the longer ones print as they go."""

import time
from collections.abc import Callable

PATIENCE_S = 600


def say(text: str) -> None:
    """Print one line, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)  # noqa: T201 - its purpose


def wait_for(done: Callable[[], bool], what: str = "it", *, pause_s: float = 0.1) -> None:
    """Wait until something holds; ``what`` names it.

    Raises:
        AssertionError: it did not hold within PATIENCE_S.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s"
        time.sleep(pause_s)
