"""Limits on how often an account calls: counting, asking and forgetting.

Source: CloudStack's rate limit (cloudstack-protocol.md 1.7); root admins are exempt.
"""

from sqlalchemy import Connection

from bulkdeploy.domain.errors import TooManyCalls
from bulkdeploy.store.accounts import api_limits
from bulkdeploy.store.configuration.configurations import Configuration


def count_call(connection: Connection, configuration: Configuration, account_id: int) -> TooManyCalls | None:
    """Count one more call of an account, in all processes together; the refusal of one too many, which counts, too.

    Too many are more than ``api.throttling.max`` in one ``api.throttling.interval``.
    """
    counted = api_limits.count_call(connection, account_id, configuration.number("api.throttling.interval"))
    if counted.calls > configuration.number("api.throttling.max"):
        return TooManyCalls(counted.milliseconds_left)
    return None
