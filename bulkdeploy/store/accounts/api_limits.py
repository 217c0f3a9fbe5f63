"""The number of calls of an account in its current interval, counted over all API processes.

An interval begins with the first call after the last one ended. All times are the database's.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, Double, case, cast, delete, extract, func, or_, select
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.store.tables.accounts import api_calls


@dataclass(frozen=True, slots=True)
class CallCount:
    """The number of calls in the current interval, and the milliseconds until the interval ends."""

    calls: int
    milliseconds_left: int


def count_call(connection: Connection, account_id: int, interval_seconds: int) -> CallCount:
    """Count one more call of an account and return the new count. Concurrent calls are counted one by one."""
    over = or_(
        api_calls.c.interval_began <= func.clock_timestamp() - timedelta(seconds=interval_seconds),
        api_calls.c.interval_began > func.clock_timestamp(),
    )
    first = insert(api_calls).values(account_id=account_id, interval_began=func.clock_timestamp(), calls=1)
    counted = first.on_conflict_do_update(
        index_elements=[api_calls.c.account_id],
        set_={
            "interval_began": case((over, func.clock_timestamp()), else_=api_calls.c.interval_began),
            "calls": case((over, 1), else_=api_calls.c.calls + 1),
        },
    ).returning(api_calls.c.calls, _age())
    row = connection.execute(counted).one()
    return CallCount(row.calls, _remaining_ms(interval_seconds, row.age))


def current_count(connection: Connection, account_id: int, interval_seconds: int) -> CallCount:
    """Return the number of calls that an account made in its current interval.

    If its last interval is over, the count is zero and a whole interval remains.
    """
    row = connection.execute(
        select(api_calls.c.calls, _age()).where(api_calls.c.account_id == account_id)
    ).one_or_none()
    if row is None or not 0 <= row.age < interval_seconds:
        return CallCount(0, interval_seconds * 1000)
    return CallCount(row.calls, _remaining_ms(interval_seconds, row.age))


def forget_calls(connection: Connection, account_id: int | None) -> None:
    """Reset the call counter of an account, or of all accounts if ``account_id`` is None."""
    query = delete(api_calls)
    connection.execute(query if account_id is None else query.where(api_calls.c.account_id == account_id))


def _age() -> ColumnElement[float]:
    """Return seconds since an account's interval began."""
    return cast(extract("epoch", func.clock_timestamp() - api_calls.c.interval_began), Double).label("age")


def _remaining_ms(interval_seconds: int, age: float) -> int:
    return max(0, round((interval_seconds - age) * 1000))
