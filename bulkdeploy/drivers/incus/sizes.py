"""Sizes in the format of Incus, as this driver or an operator writes them (doc/reference/instance_units.md)."""

import re

SIZE = re.compile(r"(\d+)([A-Za-z]*)")
UNITS: dict[str, int] = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 10 ** (3 * power) for power, prefix in enumerate("kMGTPE", 1)},
    **{f"{prefix}iB": 1 << (10 * power) for power, prefix in enumerate("KMGTPE", 1)},
}


def read_size(text: str) -> int:
    """Convert a size with a unit to bytes.

    Raises:
        ValueError: the text is not a size.
    """
    found = SIZE.fullmatch(text)
    if found is None or found[2] not in UNITS:
        raise ValueError(f"{text!r} must be a size: a whole number and one of {', '.join(filter(None, UNITS))}")
    return int(found[1]) * UNITS[found[2]]


def read_memory(text: str) -> int:
    """Convert a memory limit to bytes.

    Returns 0 for an empty limit and for a share of the member's memory.

    Raises:
        ValueError: the text is not a size.
    """
    return 0 if not text or text.endswith("%") else read_size(text)


def read_cpus(text: str) -> int:
    """Return the number of CPUs of a limit, which is a number or a set such as ``0-3,8``.

    Returns 0 for an empty limit.

    Raises:
        ValueError: the text is neither a number nor a set.
    """
    if not text or text.isdigit():
        return int(text or 0)
    ends = [part.partition("-") for part in text.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)
