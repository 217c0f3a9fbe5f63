"""The frequency of garbage collection, which is low because most objects live long or are freed without it."""

import gc

OBJECTS_BEFORE_COLLECTION = 50_000
"""A list of 25,000 VMs makes a million objects, none of them garbage; with Python's 700 half its CPU went into
looking for it. Of a program's start, which makes as many, it was an eighth."""


def collect_seldom() -> None:
    """Reduce the frequency of garbage collection in this process and those that it forks."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION, 10, 10)
