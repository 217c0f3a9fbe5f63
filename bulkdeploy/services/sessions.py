"""Logging in and out.

Source: CloudStack's login and logout (reference section 2.2). Every login begins a new session
with fresh secrets, so nothing that an attacker planted before it is of use afterwards.
"""

import secrets
from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.domain.errors import LoginFailed
from bulkdeploy.services.passwords import password_matches
from bulkdeploy.services.system import System
from bulkdeploy.store import sessions
from bulkdeploy.store.callers import LoginUser, domain_by_path, user_by_name
from bulkdeploy.store.configuration import read_configuration

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """Who wants to log in; ``domain_id`` wins over ``domain_path``, and without both it is ROOT.

    ``replaced_token``: the session that the browser had before, which ends.
    """

    username: str
    password: str
    domain_path: str = ""
    domain_id: int | None = None
    replaced_token: str | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that has just begun; its two secrets are shown here and nowhere else."""

    user: LoginUser
    token: str
    session_key: str
    timeout_seconds: int = sessions.IDLE_SECONDS


def log_in(system: System, connection: Connection, request: LoginRequest) -> NewSession:
    """Begin a session for a user name and password.

    Wrong passwords are counted; ``incorrect.login.attempts.allowed`` in a row disable the user,
    a default user excepted. Whether a user exists or is disabled is told only to who knows the password.

    Raises:
        LoginFailed: no such domain; user and password do not belong together; user or account disabled.
    """
    domain_id = request.domain_id or domain_by_path(connection, request.domain_path)
    if domain_id is None:
        raise LoginFailed(f"Unable to find the domain from the path {request.domain_path}")
    user = user_by_name(connection, request.username, domain_id)
    matches = password_matches(request.password, None if user is None else user.password_hash)
    if user is None or not matches:
        if user is not None:
            allowed = read_configuration(connection).number("incorrect.login.attempts.allowed")
            with system.engine.begin() as writing:
                sessions.count_failed_login(writing, user.caller.user_id, allowed)
        raise LoginFailed(
            f"Failed to authenticate user {request.username} in domain {domain_id}; "
            "please provide valid credentials"
        )
    if not user.guards.admits(request.address):
        raise LoginFailed(f"User {request.username} may not log in from {request.address}")
    session = NewSession(user, secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES))
    if not (user.enabled and _begin(system, session, request.replaced_token)):
        raise LoginFailed(
            f"User {request.username} in domain {domain_id}, or its account, is disabled or locked; "
            "please contact the administrator"
        )
    return session


def log_out(system: System, token: str) -> None:
    """End a session; one that is over already stays so."""
    with system.engine.begin() as connection:
        sessions.delete_session(connection, token)


def _begin(system: System, session: NewSession, replaced_token: str | None) -> bool:
    user_id = session.user.caller.user_id
    with system.engine.begin() as connection:
        if not sessions.accept_login(connection, user_id):
            return False
        if replaced_token is not None:
            sessions.delete_session(connection, replaced_token)
        sessions.insert_session(connection, user_id, session.token, session.session_key)
    return True
