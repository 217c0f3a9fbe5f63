"""Many host names in one word: ``kvm-a-{01..10}`` stands for ten. Reading such words, and finding them."""

import re
from collections.abc import Sequence

MOST_EXPANDED = 10_000
HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?", re.ASCII)
PATTERN = re.compile(r"([^{}]*)\{([0-9]{1,9})\.\.([0-9]{1,9})\}([^{}]*)", re.ASCII)
NUMBERED = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)", re.ASCII)


def expand(written: str) -> tuple[str, ...] | None:
    """The names that a name or a pattern stands for; None where it is neither, or stands for too many.

    Numbers are as wide as the first one: ``{08..10}`` is 08, 09, 10 and ``{8..10}`` is 8, 9, 10.
    """
    found = PATTERN.fullmatch(written)
    if found is None:
        return (written,) if HOST.fullmatch(written) else None
    head, first, last, tail = found.groups()
    count = int(last) - int(first) + 1
    if not 0 < count <= MOST_EXPANDED or HOST.fullmatch(f"{head}{last}{tail}") is None:
        return None
    return tuple(f"{head}{number:0{len(first)}}{tail}" for number in range(int(first), int(last) + 1))


def compress(names: Sequence[str]) -> list[str]:
    """Words, in order, that stand for these names: the inverse of ``expand``."""
    words: list[str] = []
    run: list[str] = []
    for name in names:
        if run and not continues(run, name):
            words.append(word_for(run))
            run = []
        run.append(name)
    return [*words, word_for(run)] if run else words


def continues(run: Sequence[str], name: str) -> bool:
    """Whether one pattern can stand for ``run`` and ``name`` after it."""
    found = NUMBERED.fullmatch(run[0])
    if found is None or len(run) == MOST_EXPANDED:
        return False
    head, number, tail = found.groups()
    return name == f"{head}{int(number) + len(run):0{len(number)}}{tail}"


def word_for(run: Sequence[str]) -> str:
    """One word for names of which each ``continues`` those before it."""
    found = NUMBERED.fullmatch(run[0])
    if len(run) == 1 or found is None:
        return run[0]
    head, number, tail = found.groups()
    last = f"{int(number) + len(run) - 1:0{len(number)}}"
    return f"{head}{{{number}..{last}}}{tail}"
