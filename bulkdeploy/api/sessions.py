"""Sessions over HTTP: two cookies, and a session key that every call has as a parameter.

A browser sends cookies even with requests that another site caused, but the other site cannot read the session key.
So a call with cookies is accepted only with the parameter ``sessionkey``, as in CloudStack with
``api.sessionkey.check.locations`` set to ParameterOnly (cloudstack-protocol.md 2.2). cmk and bulkmonkey send it.
"""

import hmac

from bulkdeploy.api.wire import Cookie, WireRequest
from bulkdeploy.commands.accounts.sessions import SessionBegun
from bulkdeploy.store.accounts.sessions import OpenSession, digest

TOKEN_COOKIE = "JSESSIONID"  # noqa: S105 - the cookie's name
KEY = "sessionkey"
COOKIE_PATH = "/client"


def token_of(request: WireRequest) -> str | None:
    """Return the session token in the request's cookies, or None if there is none."""
    return request.cookies.get(TOKEN_COOKIE) or None


def has_session_key(request: WireRequest, session: OpenSession) -> bool:
    """Return whether the request has the session's key as a parameter, and no different key as a cookie."""
    parameter = request.parameters.get(KEY, "")
    return all(
        hmac.compare_digest(digest(key), session.session_key_hash)
        for key in (parameter, request.cookies.get(KEY, parameter))
    )


def cookies_of(session: SessionBegun) -> tuple[Cookie, ...]:
    """Return the cookies that a client gets at login."""
    return (Cookie(TOKEN_COOKIE, session.token), Cookie(KEY, session.session_key))


NO_SESSION = (Cookie(TOKEN_COOKIE, None), Cookie(KEY, None))
"""The cookies that remove a client's session."""
