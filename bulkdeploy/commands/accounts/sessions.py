"""login and logout: the begin and the end of sessions."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bulkdeploy.commands.call import OpenCall
from bulkdeploy.commands.constant_fields import OF_LOGINS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.login_delays import LoginDelayed
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import LoginByGet, LoginFailed
from bulkdeploy.services.accounts import sessions
from bulkdeploy.services.accounts.sessions import CheckedLogin, LoginRequest, NewSession
from bulkdeploy.store.accounts.sessions import delete_session

UTC = "UTC"


@dataclass(frozen=True, slots=True)
class SessionBegun:
    """The response of a successful login. The two secrets of the session are also set as cookies."""

    answer: dict[str, Any]
    token: str
    session_key: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The response of a logout. The session's cookies are deleted."""

    answer: dict[str, Any]


def check_login(call: OpenCall) -> CheckedLogin:
    """Find the user of a login call and check the password, before the transaction of the login.

    A wrong password does not raise an error; ``login`` rejects it.

    Raises:
        LoginDelayed: there were too many failed logins before.
        LoginFailed: the login cannot succeed, as for ``services.accounts.sessions.check_login``.
    """
    domain = call.arguments.get("domainid")
    request = LoginRequest(
        username=call.arguments["username"],
        password=call.arguments["password"],
        domain_path=call.arguments.get("domain", "") if domain is None else str(domain.uuid),
        domain_id=None if domain is None else domain.id,
        address=call.address,
    )
    return sessions.check_login(call.system, call.connection, request)


def login(call: OpenCall, checked: CheckedLogin) -> SessionBegun | LoginFailed:
    """Start a session for a checked user, and return its response, or a LoginFailed error if the login is rejected.

    Raises:
        LoginFailed: as ``services.accounts.sessions.log_in``.
    """
    session = sessions.log_in(call.connection, checked, call.session_token)
    if isinstance(session, LoginFailed):
        return session
    return SessionBegun(_answer(session), session.token, session.session_key)


def logout(call: OpenCall) -> SessionEnded:
    """End the session of the call's cookie. A call without a cookie succeeds and does nothing."""
    if call.session_token is not None:
        delete_session(call.connection, call.session_token)
    return SessionEnded({"description": "success"})


def _answer(session: NewSession) -> dict[str, Any]:
    user, owner = session.user, session.user.caller.owner
    timezone = _known_timezone(user.timezone)
    return {
        "username": user.caller.username,
        "userid": user.caller.user_uuid,
        "domainid": owner.domain_uuid,
        "timeout": session.timeout_seconds,
        "account": owner.account_name,
        "firstname": user.firstname,
        "lastname": user.lastname,
        "type": owner.account_type,
        "timezone": timezone.key,
        "timezoneoffset": _hours_east(timezone),
        "registered": "false",
        "sessionkey": session.session_key,
        "is2faenabled": "false",
        "is2faverified": "true",
    }


def _known_timezone(name: str | None) -> ZoneInfo:
    """Return the time zone of a user, or UTC if the user has none or this machine does not know it.

    CloudStack's UI stores the time zone of each login and does not start without a time zone.
    """
    try:
        return ZoneInfo(name or UTC)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo(UTC)


def _hours_east(timezone: ZoneInfo) -> str:
    """Return the present offset of a time zone from UTC in hours, such as ``5.5``."""
    offset = datetime.now(timezone).utcoffset() or timedelta(0)
    return str(offset.total_seconds() / 3600)


COMMANDS = (
    Command(
        name="login",
        description="Opens a session. Later calls with its cookies and its sessionkey need no signature.",
        handler=login,
        prepare=check_login,
        shape=Shape.BARE,
        response=Response(
            "login",
            (
                text("username", "the user's name"),
                text("userid", "the user"),
                text("domainid", "the domain of the user's account"),
                number("timeout", "the number of seconds without a call after which the session ends"),
                text("account", "the user's account"),
                text("firstname", "the user's first name"),
                text("lastname", "the user's last name"),
                text("type", "the account's type: 0 user, 1 root admin, 2 domain admin, 3 resource admin"),
                text("timezone", "the user's time zone; UTC if the user has none"),
                text("timezoneoffset", "the number of hours by which the time zone is ahead of UTC"),
                text("registered", "whether the user account was created by self-registration"),
                text("sessionkey", "the key that each later call must send as its parameter sessionkey"),
                text("is2faenabled", "whether the user must give a second factor"),
                text("is2faverified", "whether the second factor was given or is not required"),
                *OF_LOGINS,
            ),
        ),
        parameters=(
            string("username", "the user's name", required=True),
            string("password", "the password in plain text", required=True),
            string("domain", "the path of the user's domain, such as /ROOT/a/b or a/b; default: ROOT", length=4096),
            uuid("domainid", Entity.DOMAIN, "the user's domain; overrides the path"),
        ),
        errors=(LoginFailed, LoginDelayed, LoginByGet),
        open=True,
        post_only=True,
        changes_state=True,
    ),
    Command(
        name="logout",
        description="Ends the session that the call belongs to",
        handler=logout,
        shape=Shape.BARE,
        response=Response("logout", (text("description", "success"),)),
        open=True,
        changes_state=True,
    ),
)
