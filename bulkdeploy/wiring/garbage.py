"""The frequency of Python's garbage collection, which is low because few objects need it."""

import gc

OBJECTS_BEFORE_COLLECTION = 50_000
"""The number of new objects after which garbage is collected.

A list of 25,000 VMs creates a million objects, none of which is garbage. With Python's default of 700, garbage
collection took half of the list's CPU time, and an eighth of a program's start.
"""


def collect_seldom() -> None:
    """Reduce the frequency of garbage collection in this process and in processes forked from it."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION, 10, 10)
