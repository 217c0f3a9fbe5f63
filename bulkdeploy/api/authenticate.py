"""The authentication of callers by signature or by session.

Error messages do not tell whether the key, the signature, the session or the user was wrong. A caller with a valid
key who may not use a command gets CommandNotAvailable even if the signature is wrong, as in CloudStack
(cloudstack-protocol.md 2.1). If a request has a key and a signature, its cookies are ignored.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.api import sessions
from bulkdeploy.api.authorise import require_permission
from bulkdeploy.api.wire import WireRequest
from bulkdeploy.declare.command import Command
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.accounts.call_guards import LONGEST_EXPIRY_MINUTES, CallGuards
from bulkdeploy.domain.errors import CredentialsRefused, SessionRefused
from bulkdeploy.security.signature import verify
from bulkdeploy.store.accounts.callers import KeyHolder, caller_by_api_key
from bulkdeploy.store.accounts.sessions import session_by_token

PLAUSIBLE_KEY = re.compile(r"[\x21-\x7e]{1,255}")
EXPIRES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller, with the data that was read together with the caller.

    Attributes:
        caller: the authenticated user.
        guards: the rules of the caller's account for calls, such as allowed source addresses.
        due_token: the token of the caller's session if the session must be prolonged now, otherwise None.
        found: the rows that the command reads together with the caller; see ``Call``.
    """

    caller: Caller
    guards: CallGuards
    due_token: str | None = None
    found: Mapping[str, Any] = field(default_factory=dict)


def is_signed(request: WireRequest) -> bool:
    """Return whether a request has an API key and a signature."""
    return bool(request.in_any_case("apikey") and request.in_any_case("signature"))


def by_signature(
    connection: Connection,
    request: WireRequest,
    command: Command,
    decrypt: Callable[[bytes], str],
) -> Identity:
    """Return the user whose secret key signed the request.

    If the setting for timestamps is on, the signature of a command that changes state must expire soon.

    Raises:
        CredentialsRefused: the key or the signature is wrong, the signature has expired or expires too late, the
            source address is not allowed, or the user or the account is disabled.
        CommandNotAvailable: the user may not use the command; raised even if the signature is wrong.
    """
    api_key, signature = request.in_any_case("apikey"), request.in_any_case("signature")
    if not api_key or not signature or not PLAUSIBLE_KEY.fullmatch(api_key) or _is_expired(request):
        raise CredentialsRefused
    holder, found = _holder(connection, request, command, api_key)
    if holder is None or not holder.enabled or not holder.guards.admits(request.address):
        raise CredentialsRefused
    if command.changes_state and holder.guards.post_with_timestamp and not _expires_soon(request):
        raise CredentialsRefused
    require_permission(holder.caller, command)
    if not verify(request.parameters, decrypt(holder.secret_key_encrypted), signature):
        raise CredentialsRefused
    return Identity(holder.caller, holder.guards, found=found)


def _holder(
    connection: Connection, request: WireRequest, command: Command, api_key: str
) -> tuple[KeyHolder | None, Mapping[str, Any]]:
    """Return the user with an API key, and the rows that the command reads in the same SQL statement.

    The user is None if no user has the key. The mapping is empty for most commands, which read no such rows.
    """
    found = None
    if command.find_with_caller is not None:
        found = command.find_with_caller(connection, api_key, request.in_any_case)
    return (caller_by_api_key(connection, api_key), {}) if found is None else found


def by_session(connection: Connection, request: WireRequest) -> Identity:
    """Return the user of the session that the request's cookie and session key belong to.

    Raises:
        CredentialsRefused: the cookie names no session, or the session may not be used from the request's address.
        SessionRefused: the session key is missing or wrong, or the user or the account is disabled. The caller of
            this function deletes the session.
    """
    token = sessions.token_of(request)
    session = None if token is None else session_by_token(connection, token)
    if session is None:
        raise CredentialsRefused
    if not session.enabled or not sessions.has_session_key(request, session):
        raise SessionRefused
    if not session.guards.admits(request.address):
        raise CredentialsRefused
    return Identity(session.caller, session.guards, token if session.due else None)


def _is_expired(request: WireRequest) -> bool:
    """Return whether a signature has expired.

    Only signatures of version 3 expire. For other versions ``expires`` is an ordinary parameter.
    """
    if request.in_any_case("signatureversion") != "3":
        return False
    moment = _expiry(request)
    return moment is None or moment <= datetime.now(UTC)


def _expires_soon(request: WireRequest) -> bool:
    if request.in_any_case("signatureversion") != "3":
        return False
    moment = _expiry(request)
    return moment is not None and moment <= datetime.now(UTC) + timedelta(minutes=LONGEST_EXPIRY_MINUTES)


def _expiry(request: WireRequest) -> datetime | None:
    expires = request.in_any_case("expires") or ""
    if not EXPIRES.fullmatch(expires):
        return None
    try:
        return datetime.fromisoformat(expires)
    except ValueError:
        return None
