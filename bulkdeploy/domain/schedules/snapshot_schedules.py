"""The schedules of snapshot policies in CloudStack's form, and the next time of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

MOST_DAYS = 62
"""Days within which each schedule names a time, even if a change to summer time skips one."""


class Interval(StrEnum):
    """The interval at which a policy takes snapshots."""

    HOURLY = "HOURLY"
    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"

    @property
    def number(self) -> int:
        """The number of the interval in CloudStack's responses."""
        return list(Interval).index(self)


FORMS = {
    Interval.HOURLY: ("mm", "mm from 00 to 59"),
    Interval.DAILY: ("mm:HH", "mm:HH, such as 30:02 for half past two"),
    Interval.WEEKLY: ("mm:HH:d", "mm:HH:d, with d from 1 for Sunday to 7 for Saturday"),
    Interval.MONTHLY: ("mm:HH:dd", "mm:HH:dd, with dd from 1 to 28"),
}
BOUNDS = {
    Interval.HOURLY: ((0, 59),),
    Interval.DAILY: ((0, 59), (0, 23)),
    Interval.WEEKLY: ((0, 59), (0, 23), (1, 7)),
    Interval.MONTHLY: ((0, 59), (0, 23), (1, 28)),
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which a snapshot policy runs.

    ``parts`` are the minute, then the hour and the day if the interval needs them.
    """

    interval: Interval
    parts: tuple[int, ...]
    zone: ZoneInfo

    @classmethod
    def parse(cls, interval: Interval, written: str, zone: ZoneInfo) -> "Schedule | None":
        """Return the schedule in CloudStack's text form, or None if the text is not valid for this interval."""
        texts = written.split(":")
        bounds = BOUNDS[interval]
        if len(texts) != len(bounds) or not all(
            text.isascii() and text.isdigit() and len(text) <= 2 for text in texts
        ):
            return None
        parts = tuple(int(text) for text in texts)
        if not all(low <= part <= high for part, (low, high) in zip(parts, bounds, strict=True)):
            return None
        return cls(interval, parts, zone)

    def next_after(self, moment: datetime) -> datetime:
        """Return the first time of the schedule that is later than ``moment``, both with their time zones."""
        return next(one for one in self._times(moment.astimezone(self.zone)) if one > moment)

    def _times(self, local: datetime) -> Iterator[datetime]:
        if self.interval is Interval.HOURLY:
            hour = local.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            # minutes of UTC, because local hours may be shifted by half an hour or occur twice
            for minutes in range(3 * 60):
                one = hour + timedelta(minutes=minutes)
                if one.astimezone(self.zone).minute == self.parts[0]:
                    yield one
            return
        for days in range(MOST_DAYS):
            day = local.date() + timedelta(days=days)
            if self._is_day(day):
                at = datetime.combine(day, time(self.parts[1], self.parts[0]), self.zone)
                yield at.astimezone(UTC)

    def _is_day(self, day: date) -> bool:
        if self.interval is Interval.WEEKLY:
            return day.isoweekday() % 7 + 1 == self.parts[2]
        return self.interval is Interval.DAILY or day.day == self.parts[2]
