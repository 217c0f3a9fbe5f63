"""The order of a run on several processes: what takes long by itself begins first, and not all in one process.

pytest-xdist hands each process an equal part of the tests, in their order, and lets who is done take from the end
of what others have left. Tests of real programs take up to a minute each: begun last, one of them runs alone.
"""

from collections.abc import Sequence

import pytest

OF_PROGRAMS = ("chaos", "workers", "manage", "acceptance")
"""Folders whose tests start the product's programs, those with the longest tests first."""


def deal(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests, those of programs dealt out to the beginnings of equal parts; the same for the same tests."""
    of_programs = [item for item in items if _folder(item) in OF_PROGRAMS]
    others = [item for item in items if _folder(item) not in OF_PROGRAMS]
    groups: dict[str, list[pytest.Item]] = {}
    for item in sorted(of_programs, key=lambda item: OF_PROGRAMS.index(_folder(item))):
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


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(item.config.rootpath / "tests").parts[0]


def _group(item: pytest.Item) -> str:
    """What must stay together: tests that share what their folder or their file makes once."""
    found = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    scopes = {fixtures[-1].scope for fixtures in found}
    if "package" in scopes:
        return str(item.path.parent)
    return str(item.path) if "module" in scopes else item.nodeid
