"""The processing of an API call, from request to response (one file: the steps share the call's state).

The steps are: find the command, authenticate the caller, check permissions, convert the parameters, run the
handler, render the result. Other modules implement the steps. This module does not depend on Flask.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import structlog
from sqlalchemy import Connection

from bulkdeploy.api import sessions
from bulkdeploy.api.authenticate import Identity, by_session, by_signature, is_signed
from bulkdeploy.api.authorise import require_permission, unknown_command
from bulkdeploy.api.envelope import REFUSED_ENVELOPE, Renderer, answer, refusal
from bulkdeploy.api.errors import error_content
from bulkdeploy.api.shared_calls import SharedCalls
from bulkdeploy.api.wire import Cookie, WireAnswer, WireRequest
from bulkdeploy.commands.accounts.sessions import SessionBegun, SessionEnded
from bulkdeploy.commands.call import Call, OpenCall
from bulkdeploy.declare.binding import Binder
from bulkdeploy.declare.command import Command
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.accounts.call_guards import UNKNOWN_REFUSED, ChangeByGet, UnknownParameters, shown_names
from bulkdeploy.domain.accounts.login_delays import LoginDelayed
from bulkdeploy.domain.errors import (
    BulkDeployError,
    CommandNotAvailable,
    CredentialsRefused,
    DatabaseUnreachable,
    LoginByGet,
    NoCommand,
    SessionRefused,
    TooManyCalls,
    UnexpectedFailure,
    UnknownCommand,
)
from bulkdeploy.services.accounts.api_limits import count_call
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.sessions import delete_session, prolong_session
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.availability import is_unreachable, unavailability
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.rows.entities import resolve_known
from bulkdeploy.store.rows.listing import read_all_rows
from bulkdeploy.telemetry import metrics
from bulkdeploy.telemetry.request_id import current_request
from bulkdeploy.telemetry.tracing import SpanKind, Value, continued, span

log = structlog.get_logger(__name__)

MOST_CACHED_SECRETS = 10_000
LONGEST_LOGGED_COMMAND = 100
SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A command with the objects that are created once from its declaration."""

    command: Command
    binder: Binder
    renderer: Renderer


@dataclass(slots=True)
class Progress:
    """The state of a call, for its error response and its log line.

    Attributes:
        request: the request.
        endpoint: the requested command; None if the command does not exist.
        caller: the authenticated caller; None until the caller is known.
    """

    request: WireRequest
    endpoint: Endpoint | None
    caller: Caller | None = None


class Dispatcher:
    """The object that answers API calls.

    One object serves all threads of a process.

    Args:
        system: the services that handlers use.
        commands: the commands by name.
        refuse_undeclared_fields: answer with status 530 if a handler returns a field that its command does not
            declare; only tests set this.
    """

    def __init__(
        self, system: System, commands: Mapping[str, Command], *, refuse_undeclared_fields: bool = False
    ) -> None:
        self._system = system
        self._commands, self._strict = commands, refuse_undeclared_fields
        self._endpoints: dict[str, Endpoint] = {}
        self._shared = SharedCalls(system)
        # Keyed by the encrypted key itself: a key that was changed is never found under the old one.
        self._decrypt: Callable[[bytes], str] = lru_cache(MOST_CACHED_SECRETS)(system.cipher.decrypt)

    def answer(self, request: WireRequest) -> WireAnswer:
        """Return the response to a request. Errors, including unexpected exceptions, become error responses."""
        started = time.perf_counter()
        progress = Progress(request, self._endpoint(request.command or ""))
        name = "unknown command" if progress.endpoint is None else progress.endpoint.command.name
        with continued(request.traceparent), span(name, SpanKind.SERVER, partial(_facts, request)) as of_call:
            answered = self._answer_whatever_happens(progress)
            of_call.set("http.response.status_code", answered.status)
            if answered.status >= SERVER_ERROR:
                of_call.fail(f"answered {answered.status}")
            self._tell(progress, answered, time.perf_counter() - started)
        return answered

    def _answer_whatever_happens(self, progress: Progress) -> WireAnswer:
        try:
            return self._answer(progress)
        except BulkDeployError as error:
            return self.refuse(progress.request, error, progress)
        except Exception as error:  # noqa: BLE001 - every other exception becomes an error response and a log entry
            return self.refuse(progress.request, _known(error, progress.request), progress)

    def _tell(self, progress: Progress, answered: WireAnswer, seconds: float) -> None:
        """Update the metrics of calls, and write the log line of a call."""
        request = progress.request
        metrics.CALLS.labels("unknown" if progress.endpoint is None else request.command, answered.status).inc()
        metrics.CALL_SECONDS.observe(seconds)
        log.info(
            "call",
            command=None if request.command is None else request.command[:LONGEST_LOGGED_COMMAND],
            status=answered.status,
            milliseconds=round(seconds * 1000, 1),
            user=None if progress.caller is None else str(progress.caller.user_uuid),
            address=request.address,
        )

    def refuse(self, request: WireRequest, error: BulkDeployError, progress: Progress | None = None) -> WireAnswer:
        """Return the error response for a request that failed with ``error``.

        ``progress`` is the state of the call when it failed; None if the request never became a call.
        """
        caller = None if progress is None else progress.caller
        endpoint = None if progress is None else progress.endpoint
        unavailable = isinstance(error, CommandNotAvailable | UnknownCommand)
        key = REFUSED_ENVELOPE if endpoint is None or unavailable else endpoint.command.envelope_key
        headers = {}
        if isinstance(error, TooManyCalls | LoginDelayed):
            headers["Retry-After"] = str(error.retry_after_s)
        cookies = sessions.NO_SESSION if isinstance(error, SessionRefused) else ()
        content = error_content(error, caller)
        if content["errortext"] != str(error):
            log.info("refused", command=request.command, error=type(error).__name__, text=str(error))
        return refusal(key, content, json=request.wants_json, headers=headers, cookies=cookies)

    def _endpoint(self, name: str) -> Endpoint | None:
        """Return the endpoint of a command, or None if the command does not exist.

        An endpoint is created at the first call of its command, because creating all of them would double the start
        time. If two threads create the same endpoint, both objects are equivalent.
        """
        endpoint = self._endpoints.get(name)
        if endpoint is None and (command := self._commands.get(name)) is not None:
            renderer = Renderer(command, refuse_undeclared_fields=self._strict)
            endpoint = self._endpoints[name] = Endpoint(command, Binder(command), renderer)
        return endpoint

    def _answer(self, progress: Progress) -> WireAnswer:
        request, endpoint = progress.request, progress.endpoint
        if endpoint is not None and endpoint.command.open:
            return self._answer_open(request, endpoint)
        if is_signed(request):
            if endpoint is None:
                raise CredentialsRefused(request.command)
        elif sessions.token_of(request) is None:
            raise CredentialsRefused
        with self._system.reading.connect() as connection:
            identity = self._identify(connection, progress)
            caller = progress.caller = identity.caller
            if endpoint is None:
                raise NoCommand if request.command is None else unknown_command(caller, request.command)
            command = endpoint.command
            require_permission(caller, command)
            caller = caller.calling(command.name)
            if identity.guards.post_with_timestamp and command.changes_state and request.method != "POST":
                raise ChangeByGet(command.name)
            if identity.guards.throttled and not caller.is_root_admin:
                self._count_call(connection, caller)
            warning = _check_unknown(connection, request, endpoint)
            lookup = partial(resolve_known, connection, caller)
            arguments = endpoint.binder.bind(request.parameters, caller.role_type, lookup)
            call = Call(
                command, caller, arguments, self._system, connection, request.method, request.origin, identity.found
            )
            handler = _handler(call)
            if not command.changes_state:
                return _rendered(endpoint, request, handler(connection), caller, warning=warning)
        result = self._shared.answer(call) if self._shared.takes(call) else self._commit(handler)
        return _rendered(endpoint, request, result, caller, warning=warning)

    def _commit(self, handler: Callable[[Connection], Any]) -> Any:
        """Run the handler in a transaction, and return its result after the commit.

        Raises:
            BulkDeployError: the handler returned the error instead of raising it, so that its changes are
                committed.
        """
        result = run_transaction(self._system.engine, lambda connection: read_all_rows(handler(connection)))
        if isinstance(result, BulkDeployError):
            raise result
        return result

    def _identify(self, connection: Connection, progress: Progress) -> Identity:
        request, endpoint = progress.request, progress.endpoint
        if is_signed(request) and endpoint is not None:
            return by_signature(connection, request, endpoint.command, self._decrypt)
        try:
            identity = by_session(connection, request)
        except SessionRefused:
            self._write_session(delete_session, sessions.token_of(request))
            raise
        self._write_session(prolong_session, identity.due_token)
        return identity

    def _count_call(self, connection: Connection, caller: Caller) -> None:
        configuration = read_configuration(connection)
        with self._system.engine.begin() as writing:
            refused = count_call(writing, configuration, caller.owner.account_id)
        if refused is not None:
            raise refused

    def _write_session(self, write: Callable[[Connection, str], None], token: str | None) -> None:
        if token is not None:
            with self._system.engine.begin() as connection:
                write(connection, token)

    def _answer_open(self, request: WireRequest, endpoint: Endpoint) -> WireAnswer:
        """Return the response to a command that needs no credentials, such as login."""
        command = endpoint.command
        if command.post_only and request.method != "POST":
            raise LoginByGet
        with self._system.reading.connect() as connection:
            warning = _check_unknown(connection, request, endpoint)
            arguments = endpoint.binder.bind(request.parameters, None, partial(resolve_known, connection, None))
            call = OpenCall(
                command, arguments, self._system, connection, sessions.token_of(request), request.address
            )
            handler = _handler(call)
        content, cookies = _opened(self._commit(handler))
        return _rendered(endpoint, request, content, cookies=cookies, warning=warning)


def _facts(request: WireRequest) -> dict[str, Value]:
    """Return the attributes of a call's span. Parameters are left out, because they may contain secrets."""
    return {
        "http.request.method": request.method,
        "url.path": "/client/api",
        "client.address": request.address,
        "bulkdeploy.request": current_request() or "",
    }


def _check_unknown(connection: Connection, request: WireRequest, endpoint: Endpoint) -> str | None:
    """Return a warning about parameters that the command does not have, or None if there are none.

    ADR 17 explains the warning.

    Raises:
        UnknownParameters: there are such parameters, and the setting UNKNOWN_REFUSED is on.
    """
    unknown = endpoint.binder.unknown(request.parameters)
    if not unknown:
        return None
    name, shown = endpoint.command.name, shown_names(unknown)
    log.info("unknown_parameters", command=name, parameters=shown, address=request.address)
    if read_configuration(connection).flag(UNKNOWN_REFUSED):
        raise UnknownParameters(name, unknown)
    return f"{name} has no such parameters, they were ignored: {shown}"


def _handler(call: Call | OpenCall) -> Callable[[Connection], Any]:
    """Run the command's ``prepare`` function, and return its handler as a function of the connection."""
    command = call.command
    prepared = () if command.prepare is None else (command.prepare(call),)
    return lambda connection: command.handler(replace(call, connection=connection), *prepared)


def _rendered(
    endpoint: Endpoint,
    request: WireRequest,
    result: Any,
    caller: Caller | None = None,
    cookies: tuple[Cookie, ...] = (),
    *,
    warning: str | None = None,
) -> WireAnswer:
    role = None if caller is None else caller.role_type
    content = endpoint.renderer.content(result, role, json=request.wants_json, warning=warning)
    tagged = request.method == "GET" and not endpoint.command.changes_state
    return answer(endpoint.command.envelope_key, content, json=request.wants_json, cookies=cookies, tagged=tagged)


def _opened(result: Any) -> tuple[Any, tuple[Cookie, ...]]:
    if isinstance(result, SessionBegun):
        return result.answer, sessions.cookies_of(result)
    if isinstance(result, SessionEnded):
        return result.answer, sessions.NO_SESSION
    return result, ()


def _known(error: Exception, request: WireRequest) -> BulkDeployError:
    """Log an unexpected exception, and return the error that the caller gets instead."""
    if is_unreachable(error):
        log.error("database_unreachable", command=request.command, reason=str(error.__cause__ or error))
        return DatabaseUnreachable(unavailability(error))
    log.error("call_failed", command=request.command, exc_info=error)
    return UnexpectedFailure()
