"""Login and logout of users.

Every login creates a new session with new secrets, so an attacker cannot use a session that was planted before.
Source: CloudStack's login and logout (cloudstack-protocol.md 2.2).
"""

import secrets
from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.domain.errors import LoginFailed
from bulkdeploy.services.accounts.login_attempts import Attempt, admit, count_wrong_password, succeed
from bulkdeploy.services.passwords import password_matches
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts import sessions
from bulkdeploy.store.accounts.callers import LoginUser, domain_by_path, user_by_name

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """A request to log in; ``domain_id`` overrides ``domain_path``. Without both the domain is ROOT."""

    username: str
    password: str
    domain_path: str = ""
    domain_id: int | None = None
    address: str = ""

    @property
    def domain(self) -> str:
        """The path of the domain as the caller named it, or ``ROOT``. It contains no data from the database."""
        return self.domain_path or "ROOT"

    @property
    def failed(self) -> LoginFailed:
        """The error for a wrong domain, name or password."""
        return LoginFailed(
            f"Failed to authenticate user {self.username} in domain {self.domain}; please provide valid credentials"
        )


@dataclass(frozen=True, slots=True)
class CheckedLogin:
    """A checked login: the request, the user of this name and domain, and whether the password is correct."""

    request: LoginRequest
    user: LoginUser
    matches: bool
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class NewSession:
    """A new login session.

    Its two secrets are available only here; the database does not contain them in plain text.
    """

    user: LoginUser
    token: str
    session_key: str
    timeout_seconds: int = sessions.IDLE_SECONDS


def check_login(system: System, connection: Connection, request: LoginRequest) -> CheckedLogin:
    """Find the user of a login request and check the password.

    Checking a password is slow, so this runs before the transaction of the login. A caller with a wrong password
    cannot find out whether a domain or user exists or is disabled, neither from the error nor from the response
    time. No caller is told that a password is locked.

    Raises:
        LoginDelayed: too many attempts failed before, and the password is wrong or was not checked.
        LoginFailed: there is no such domain or user, or the user may not log in from this address.
    """
    domain_id = request.domain_id or domain_by_path(connection, request.domain_path)
    attempt = Attempt(domain_id or 0, request.username, request.address)
    delayed = admit(system, attempt)
    user = None if domain_id is None else user_by_name(connection, request.username, domain_id)
    matches = password_matches(request.password, None if user is None else user.password_hash)
    if delayed is not None and not matches:
        raise delayed
    if user is None:
        raise request.failed
    if matches and not user.guards.admits(request.address):
        raise LoginFailed(f"User {request.username} may not log in from {request.address}")
    return CheckedLogin(request, user, matches, attempt)


def log_in(
    connection: Connection, checked: CheckedLogin, replaced_token: str | None = None
) -> NewSession | LoginFailed:
    """Start a session for a user whose password was checked.

    If the password was wrong, a LoginFailed error is returned, not raised, because the transaction must commit the
    count of wrong passwords. After ``incorrect.login.attempts.allowed`` wrong passwords in a row the password is
    locked, except for default users. If ``replaced_token`` is given, the session with this token is deleted.

    Raises:
        LoginFailed: the user or the account is disabled.
    """
    user, caller = checked.user, checked.user.caller
    if not checked.matches:
        count_wrong_password(connection, caller, caller.user_id, caller.username)
        return checked.request.failed
    if not (user.enabled and sessions.accept_login(connection, caller.user_id)):
        raise LoginFailed(
            f"User {caller.username} in domain {checked.request.domain}, or its account, is disabled or locked; "
            "please contact the administrator"
        )
    succeed(connection, checked.attempt)
    if replaced_token is not None:
        sessions.delete_session(connection, replaced_token)
    session = NewSession(user, secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES))
    sessions.insert_session(connection, caller.user_id, session.token, session.session_key)
    return session
