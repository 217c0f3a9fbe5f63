"""Schedules in the format of cron: five fields, in a time zone, between two dates.

A time that the clocks skip in spring is replaced by the first time after the change. A time that occurs twice in
autumn is one occurrence, unless the expression names every hour or every minute.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

FIELDS = 5
LONGEST = 255


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The times of a cron expression in the time zone ``zone``, from ``start`` to ``end``, both included."""

    expression: str
    zone: ZoneInfo
    start: datetime
    end: datetime | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time later than ``moment``, or None if there is none up to ``end``."""
        after = max(moment, self.start - timedelta(seconds=1))
        # In the hour that the clock repeats, local times occur twice, so times are compared in UTC.
        named = (at.astimezone(UTC) for at in CronSim(self.expression, after.astimezone(self.zone)))
        found = next((at for at in named if at > after), None)
        return None if found is None or (self.end is not None and found > self.end) else found


def describe_cron(expression: str) -> str | None:
    """Return a description of a cron expression in words.

    Returns None if the expression does not have five fields or matches no time.
    """
    if len(expression) > LONGEST or len(expression.split()) != FIELDS:
        return None
    try:
        schedule = CronSim(expression, datetime(2000, 1, 1, tzinfo=ZoneInfo("UTC")))
        next(schedule)
        return schedule.explain()
    except (CronSimError, StopIteration):
        return None
