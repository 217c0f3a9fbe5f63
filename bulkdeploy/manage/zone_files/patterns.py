"""Patterns that define many objects in one entry: ``a-{01..10}`` expands to ten texts."""

import re

MOST_EXPANDED = 100_000
PATTERN = re.compile(r"\{([^{}]*)\.\.([^{}]*)\}")
NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def count(text: str) -> int | None:
    """Return the number of texts that a text with patterns expands to, or None if it contains no pattern.

    Raises:
        ValueError: a pattern does not consist of two numbers, counts down or too far, or differs in length from
            another pattern.
    """
    if not all(NUMBER.fullmatch(end) for ends in PATTERN.findall(text) for end in ends):
        raise ValueError("must have patterns such as {01..10} with numbers of at most 9 digits")
    sizes = {int(last) - int(first) + 1 for first, last in PATTERN.findall(text)}
    if not sizes:
        return None
    if len(sizes) > 1:
        raise ValueError("must have patterns that expand to the same number of texts")
    (size,) = sizes
    if not 0 < size <= MOST_EXPANDED:
        raise ValueError(f"must have patterns that count up and expand to at most {MOST_EXPANDED} texts")
    return size


def expand(text: str, number: int) -> list[str]:
    """Return the ``number`` texts to which a text with patterns expands.

    All numbers are as wide as the first: ``{08..10}`` becomes 08, 09, 10.
    """
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    at = 0
    for found in PATTERN.finditer(text):
        parts.append(text[at : found.start()].replace("%", "%%"))
        starts.append((int(found[1]), len(found[1])))
        at = found.end()
    template = "%s".join([*parts, text[at:].replace("%", "%%")])
    return [template % tuple(f"{first + step:0{width}}" for first, width in starts) for step in range(number)]
