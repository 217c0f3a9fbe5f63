"""How tests wait for what takes a while, and what the longer ones print as they go."""

import time
from collections.abc import Callable

PATIENCE_S = 600


def say(text: str) -> None:
    """Print one line, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)  # noqa: T201 - its purpose


def wait_for(
    done: Callable[[], bool], what: str = "it", *, pause_s: float = 0.1, patience_s: float = PATIENCE_S
) -> None:
    """Wait until something holds; ``what`` names it.

    Raises:
        AssertionError: it did not hold within ``patience_s``.
    """
    deadline = time.monotonic() + patience_s
    while not done():
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:g} s"
        time.sleep(pause_s)
