"""Sessions on the wire: two cookies, and the session key that may also come as a parameter.

Source: reference section 2.2. A call by session needs the cookie JSESSIONID and the session key,
as the parameter ``sessionkey`` or as the cookie of that name; a key that is given must be right,
wherever it is given.
"""

import hmac

from bulkdeploy.api.wire import Cookie, WireRequest
from bulkdeploy.commands.session import SessionBegun
from bulkdeploy.store.sessions import OpenSession, digest

TOKEN_COOKIE = "JSESSIONID"  # noqa: S105 - the cookie's name
KEY = "sessionkey"
COOKIE_PATH = "/client"


def token_of(request: WireRequest) -> str | None:
    """The session token that came with a request, if any."""
    return request.cookies.get(TOKEN_COOKIE) or None


def has_session_key(request: WireRequest, session: OpenSession) -> bool:
    """Whether the request shows the session's own key and no other."""
    given = [key for key in (request.parameters.get(KEY), request.cookies.get(KEY)) if key is not None]
    right = [hmac.compare_digest(digest(key), session.session_key_hash) for key in given]
    return bool(right) and all(right)


def cookies_of(session: SessionBegun) -> tuple[Cookie, ...]:
    """The cookies that a client has after logging in."""
    return (Cookie(TOKEN_COOKIE, session.token), Cookie(KEY, session.session_key))


NO_SESSION = (Cookie(TOKEN_COOKIE, None), Cookie(KEY, None))
"""The cookies of a client whose session is over."""
