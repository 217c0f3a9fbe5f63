"""Occurrences of schedules: which one is due, and when the next one is planned.

A row has a schedule and the time of its next occurrence. The process that handles an occurrence locks the row, does
the work and updates the time in one transaction. Therefore each occurrence is handled once, with any number of
sweepers.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


class Schedule(Protocol):
    """A schedule, which names points in time."""

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time later than ``moment``, or None if there is none."""


@dataclass(frozen=True, slots=True)
class DueOccurrence:
    """The occurrence for which a due row is handled.

    Attributes:
        at: the time of the occurrence, or None if all occurrences that passed are too old to be handled.
        following: the time of the next occurrence, or None if the schedule has ended.
    """

    at: datetime | None
    following: datetime | None


def find_due(schedule: Schedule, planned: datetime, now: datetime, longest_delay: timedelta) -> DueOccurrence:
    """Return the occurrence to handle among those from ``planned`` to ``now``, and the next one.

    Occurrences that were missed are handled as one. Occurrences older than ``longest_delay`` are skipped. If the
    clock was set back, no occurrence is returned twice, because the next one is later than ``planned``.
    """
    following = schedule.next_after(max(now, planned))
    if planned >= now - longest_delay:
        return DueOccurrence(planned, following)
    later = schedule.next_after(now - longest_delay)
    return DueOccurrence(later if later is not None and later <= now else None, following)
