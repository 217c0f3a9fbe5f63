"""The formats of values: numbers, sizes, times and percentages. Templates use them as filters."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

KIB = 1024
SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
MHZ_PER_GHZ = 1000
PER_CENT = 100
MOST_CACHED = 4096
"""Values whose HTML is kept: the rows of a table have few different ones."""

STATES = {
    "good": ("Running", "Up", "Enabled", "Completed", "succeeded", "On", "Available"),
    "busy": (
        "Starting",
        "Stopping",
        "Migrating",
        "InProgress",
        "in progress",
        "Expunging",
        "Checking",
        "Recovering",
    ),
    "warn": (
        "Unknown",
        "WARN",
        "Cancelled",
        "Maintenance",
        "PrepareForMaintenance",
        "Disabled",
        "Connecting",
        "Suspect",
        "Degraded",
    ),
    "bad": (
        "Error",
        "failed",
        "ERROR",
        "Down",
        "Alert",
        "ErrorInMaintenance",
        "ErrorInPrepareForMaintenance",
        "Off",
        "Fencing",
        "Fenced",
    ),
}
"""What states mean, by their class in the style sheet; all others mean nothing."""
KIND_OF_STATE = {state: kind for kind, states in STATES.items() for state in states}


def number(value: object) -> str:
    """Return a number with thousands separators, or a dash if there is none."""
    if value in (None, ""):
        return "\u2013"
    amount = float(str(value))
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.1f}"


def size(value: object) -> str:
    """Return a number of bytes in the largest unit with a value of at least 1, or a dash if there is none."""
    if value in (None, ""):
        return "\u2013"
    amount, unit = float(str(value)), 0
    while amount >= KIB and unit < len(SIZES) - 1:
        amount, unit = amount / KIB, unit + 1
    return (
        f"{amount:,.0f}\u00a0{SIZES[unit]}" if amount >= 100 or unit == 0 else f"{amount:,.1f}\u00a0{SIZES[unit]}"
    )


def mebibytes(value: object) -> str:
    """Return a number of MiB in the largest fitting unit, or a dash if there is none."""
    return size(None if value in (None, "") else float(str(value)) * KIB * KIB)


def frequency(value: object) -> str:
    """Return a number of MHz as text in GHz, or a dash if there is none."""
    return "\u2013" if value in (None, "") else f"{float(str(value)) / MHZ_PER_GHZ:,.1f}\u00a0GHz"


def duration(seconds: object) -> str:
    """Return a number of seconds as text in at most two units, such as ``2 h 5 min``.

    Returns a dash for None.
    """
    if seconds is None:
        return "\u2013"
    left = round(float(str(seconds)))
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if left >= unit:
            rest = left % unit // smaller
            return f"{left // unit}\u00a0{name}" + (f" {rest}\u00a0{smaller_name}" if rest else "")
    return f"{left}\u00a0s"


def share(part: object, of: object) -> float:
    """Return part in percent of ``of``, limited to the range 0 to 100. Returns 0 if ``of`` is 0."""
    total = float(str(of or 0))
    return 0.0 if total <= 0 else max(0.0, min(float(PER_CENT), float(str(part or 0)) * PER_CENT / total))


def bar_parts(parts: Iterable[tuple[str, object]], total: object) -> Markup:
    """Return the rectangles of a bar: one for each part, with the part's CSS class and its share of a whole."""
    at, drawn = 0.0, []
    for kind, count in parts:
        if count:
            width = min(share(count, total), PER_CENT - at)
            drawn.append(f'<rect class="{escape(kind)}" x="{at:.3f}" y="0" width="{width:.3f}" height="10"/>')
            at += width
    return Markup("\n".join(drawn))  # noqa: S704 - numbers and escaped classes


@lru_cache(MOST_CACHED)
def moment(value: object) -> Markup:
    """Return a time as an HTML element, or a dash if there is none. The browser shows how long ago the time is."""
    when = parsed(value)
    if when is None:
        return Markup("\u2013")
    text = when.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}">{}</time>').format(when.isoformat(), text)


def parsed(value: object) -> datetime | None:
    """Return a timestamp of the API as a datetime, or None if it is missing or not a timestamp."""
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        return None


def seconds_between(begin: object, end: object) -> float | None:
    """Return the seconds between two timestamps of the API, or None if one of them is missing."""
    first, last = parsed(begin), parsed(end)
    return None if first is None or last is None else (last - first).total_seconds()


def joined(values: Iterable[Mapping[str, Any]], name: str) -> str:
    """Return the values of one field of several rows, separated by commas. Empty values are left out."""
    return ", ".join(str(value[name]) for value in values if value.get(name))


WORDS_IN_NAME = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]{2,}(?=[A-Z][a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(command: str) -> str:
    """Return the name of a command or planner in words: ``createSSHKeyPair`` becomes "Create SSH key pair"."""
    found = WORDS_IN_NAME.findall(command)
    if not found:
        return command
    return " ".join([found[0].capitalize(), *(one if one.isupper() else one.lower() for one in found[1:])])


FILTERS = {
    "words": words,
    "number": number,
    "size": size,
    "mebibytes": mebibytes,
    "frequency": frequency,
    "duration": duration,
    "moment": moment,
    "joined": joined,
}
