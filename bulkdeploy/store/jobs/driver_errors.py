"""Counters of failed driver calls by step, hypervisor type and kind, which getHealth sums up."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True, order=True)
class DriverErrorKind:
    """A kind of failed driver call, as the metric ``bulkdeploy_driver_errors`` labels it."""

    step: str
    hypervisor: str
    kind: str


_ADD = text(
    "INSERT INTO driver_errors (minute, hypervisor, step, kind, errors)"
    " SELECT date_trunc('minute', now()), * FROM unnest(CAST(:hypervisors AS text[]), CAST(:steps AS text[]),"
    "   CAST(:kinds AS text[]), CAST(:errors AS integer[]))"
    " ON CONFLICT (minute, hypervisor, step, kind)"
    " DO UPDATE SET errors = driver_errors.errors + excluded.errors"
)

_FORGET = text(
    "DELETE FROM driver_errors WHERE ctid IN (SELECT ctid FROM driver_errors"
    " WHERE minute < now() - interval '1 day' FOR UPDATE SKIP LOCKED)"
)

_RECENT = text(
    "SELECT hypervisor, step, kind, sum(errors) AS errors FROM driver_errors"
    " WHERE minute > now() - interval '1 hour' GROUP BY 1, 2, 3 ORDER BY errors DESC, 1, 2, 3"
)


def add_driver_errors(connection: Connection, errors: Sequence[DriverErrorKind]) -> None:
    """Add these driver errors to the counters, and delete counters that are older than a day.

    The errors are sorted, so that concurrent processes cannot deadlock.
    """
    connection.execute(_FORGET)
    counted = sorted(Counter(errors).items())
    connection.execute(
        _ADD,
        {
            "hypervisors": [one.hypervisor for one, _ in counted],
            "steps": [one.step for one, _ in counted],
            "kinds": [one.kind for one, _ in counted],
            "errors": [count for _, count in counted],
        },
    )


def recent_driver_errors(connection: Connection) -> list[tuple[DriverErrorKind, int]]:
    """Return the driver errors of the last hour, the most frequent first."""
    return [
        (DriverErrorKind(row.step, row.hypervisor, row.kind), int(row.errors))
        for row in connection.execute(_RECENT)
    ]
