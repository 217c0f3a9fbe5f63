"""The order of a run on several processes: what takes long by itself begins first, and not all in one process.

pytest-xdist hands each process an equal part of the tests, in their order, and lets who is done take from the end
of what others have left. Tests of real programs take up to a minute each: begun last, one of them runs alone.
"""

from collections.abc import Sequence

import pytest

LONGEST = (
    *("chaos", "workers", "manage", "acceptance", "access"),
    *("api/test_openapi.py", "api/test_alarms.py", "architecture", "benchmarks"),
)
"""Folders and files with the longest tests: first those that start the product's programs."""


def deal(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests, the long ones dealt out to the beginnings of equal parts; the same for the same tests."""
    long = sorted((item for item in items if _rank(item) < len(LONGEST)), key=_rank)
    others = [item for item in items if _rank(item) == len(LONGEST)]
    groups: dict[str, list[pytest.Item]] = {}
    for item in long:
        groups.setdefault(_group(item), []).append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for number, group in enumerate(groups.values()):
        shares[number % processes] += group
    dealt: list[pytest.Item] = []
    for number, share in enumerate(shares):
        end_of_part = len(items) * (number + 1) // processes
        capacity = max(end_of_part - len(dealt) - len(share), 0)
        dealt += share + others[:capacity]
        others = others[capacity:]
    return dealt + others


def _rank(item: pytest.Item) -> int:
    """The place of a test's folder or file among the longest, or their number."""
    path = item.path.relative_to(item.config.rootpath / "tests")
    return next((rank for rank, name in enumerate(LONGEST) if path.is_relative_to(name)), len(LONGEST))


def _group(item: pytest.Item) -> str:
    """What must stay together: tests that share what their folder or their file makes once."""
    found = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    scopes = {fixtures[-1].scope for fixtures in found}
    if "package" in scopes:
        return str(item.path.parent)
    return str(item.path) if "module" in scopes else item.nodeid
