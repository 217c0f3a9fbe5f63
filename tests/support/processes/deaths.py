"""Ends of processes at failpoints."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bulkdeploy.processes.failpoints import arm


class Died(BaseException):
    """The end of a process. No code of the product handles this exception."""


@contextmanager
def dies_at(
    *places: str | None, passes: int = 0, times: int | None = 1, end: Callable[[str], BaseException] = Died
) -> Iterator[list[str]]:
    """Raise ``end(place)`` at failpoints of this process while the context lasts.

    Args:
        places: The failpoints, such as ``call.commit.before``. None is passed by no process.
        passes: How often each place is passed before the exception is raised there.
        times: How often the exception is raised at each place. None: at each later pass.
        end: Creates the exception.

    Yields:
        The places where the exception was raised, in order.
    """
    passed, died = Counter[str](), list[str]()

    def die(place: str) -> None:
        if place in places:
            passed[place] += 1
            if passed[place] > passes and (times is None or passed[place] <= passes + times):
                died.append(place)
                raise end(place)

    arm(die)
    try:
        yield died
    finally:
        arm(None)
