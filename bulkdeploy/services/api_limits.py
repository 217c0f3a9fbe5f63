"""Limits on how often an account calls: counting, asking and forgetting.

Source: CloudStack's rate limit (reference section 1.7); root admins are exempt.
"""

from sqlalchemy import Connection

from bulkdeploy.domain.errors import TooManyCalls
from bulkdeploy.services.system import System
from bulkdeploy.store import api_limits
from bulkdeploy.store.configuration import read_configuration


def count_call(system: System, connection: Connection, account_id: int) -> None:
    """Count one more call of an account, in all processes together.

    Raises:
        TooManyCalls: ``api.throttling.max`` calls were made already in this ``api.throttling.interval``.
    """
    settings = read_configuration(connection)
    with system.engine.begin() as writing:
        counted = api_limits.count_call(writing, account_id, settings.number("api.throttling.interval"))
    if counted.calls > settings.number("api.throttling.max"):
        raise TooManyCalls(counted.milliseconds_left)


def forget_calls(system: System, account_id: int | None) -> None:
    """Let an account, or without one all of them, begin anew."""
    with system.engine.begin() as connection:
        api_limits.forget_calls(connection, account_id)
