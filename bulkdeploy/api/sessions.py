"""Sessions in HTTP: two cookies, and the session key that every call carries as a parameter.

Source: cloudstack-protocol.md 2.2. A browser adds cookies to whatever another site makes it send, and that site
cannot read them; so a call counts only with the session key as the parameter ``sessionkey``, as under CloudStack's
``api.sessionkey.check.locations`` ParameterOnly, whatever a browser thinks of SameSite. cmk and bulkmonkey send it.
"""

import hmac

from bulkdeploy.api.wire import Cookie, WireRequest
from bulkdeploy.commands.accounts.sessions import SessionBegun
from bulkdeploy.store.accounts.sessions import OpenSession, digest

TOKEN_COOKIE = "JSESSIONID"  # noqa: S105 - the cookie's name
KEY = "sessionkey"
COOKIE_PATH = "/client"


def token_of(request: WireRequest) -> str | None:
    """Return the session token that came with a request, if any."""
    return request.cookies.get(TOKEN_COOKIE) or None


def has_session_key(request: WireRequest, session: OpenSession) -> bool:
    """Return whether the request has the session's key as a parameter, and no different key as a cookie."""
    parameter = request.parameters.get(KEY, "")
    return all(
        hmac.compare_digest(digest(key), session.session_key_hash)
        for key in (parameter, request.cookies.get(KEY, parameter))
    )


def cookies_of(session: SessionBegun) -> tuple[Cookie, ...]:
    """Return the cookies that a client has after logging in."""
    return (Cookie(TOKEN_COOKIE, session.token), Cookie(KEY, session.session_key))


NO_SESSION = (Cookie(TOKEN_COOKIE, None), Cookie(KEY, None))
"""The cookies of a client whose session is over."""
