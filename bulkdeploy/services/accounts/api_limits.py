"""Limits on the number of API calls of an account per interval. Root admins are exempt.

Source: CloudStack's rate limit (cloudstack-protocol.md 1.7).
"""

from sqlalchemy import Connection

from bulkdeploy.domain.errors import TooManyCalls
from bulkdeploy.store.accounts import api_limits
from bulkdeploy.store.configuration.configurations import Configuration


def count_call(connection: Connection, configuration: Configuration, account_id: int) -> TooManyCalls | None:
    """Count one API call of an account, and return an error if the account has made too many calls.

    All processes share the count. An account may make ``api.throttling.max`` calls in an interval of
    ``api.throttling.interval`` seconds. Returns None if the call is within the limit. A call over the limit is
    counted, too.
    """
    counted = api_limits.count_call(connection, account_id, configuration.number("api.throttling.interval"))
    if counted.calls > configuration.number("api.throttling.max"):
        return TooManyCalls(counted.milliseconds_left)
    return None
