"""The Flask applications of an API process: one for API calls, one for monitoring requests."""

import re

from flask import Flask, Request, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, RequestEntityTooLarge

from bulkdeploy.api.description import add_description
from bulkdeploy.api.dispatch import Dispatcher
from bulkdeploy.api.health import add_health
from bulkdeploy.api.metrics import add_metrics
from bulkdeploy.api.proxies import TrustedProxies
from bulkdeploy.api.sessions import COOKIE_PATH
from bulkdeploy.api.wire import MOST_BODY_BYTES, WireAnswer, WireRequest, read_parameters
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.domain import errors
from bulkdeploy.services.system import System
from bulkdeploy.telemetry.request_id import HEADER, accepted, working_for
from bulkdeploy.telemetry.tracing import HEADER as TRACE

FORM = "application/x-www-form-urlencoded"
METHODS = ["GET", "POST"]
HOST = re.compile(r"([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[1-9][0-9]{0,3}|:[1-5][0-9]{4})?", re.ASCII)
"""The ``Host`` headers that are accepted: a name or an address, with a port below 60000 if one is given.

A response contains a URL only if the request's header matches, because the URL repeats the header.
"""

FORWARDED = "X-Forwarded-Proto"
"""The header in which a proxy reports the client's protocol. The value ``https`` makes cookies secure."""


def create_app(
    system: System, *, refuse_undeclared_fields: bool = False, proxies: TrustedProxies | None = None
) -> Flask:
    """Return the WSGI application that answers API calls.

    Any number of threads may call it.

    A call uses one database connection at a time. While a session is prolonged or a call is counted, it uses a
    second connection.

    Args:
        system: the services that the calls use.
        refuse_undeclared_fields: see ``Dispatcher``.
        proxies: the trusted proxies; without them, the application creates its own object.
    """
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MOST_BODY_BYTES
    commands = find_commands()
    trusted = proxies or TrustedProxies(system)
    dispatcher = Dispatcher(system, commands, refuse_undeclared_fields=refuse_undeclared_fields)

    def call(rest: str = "") -> Response:
        del rest
        request_id = accepted(request.headers.get(HEADER))
        with working_for(request_id):
            response = answer()
        response.headers[HEADER] = request_id
        return response

    def answer() -> Response:
        try:
            requested = _read(request._get_current_object(), trusted)  # type: ignore[attr-defined] # not its proxy
        except RequestEntityTooLarge:
            return refused(errors.RequestTooLarge("bytes", MOST_BODY_BYTES))
        except errors.RequestTooLarge as error:
            return refused(error)
        return _response(dispatcher.answer(requested))

    def refused(error: errors.BulkDeployError) -> Response:
        return _response(dispatcher.refuse(WireRequest({"response": request.args.get("response", "")}), error))

    def failed(error: HTTPException) -> Response:
        if isinstance(error, MethodNotAllowed):
            response = refused(errors.MethodNotAllowed(request.method))
            response.headers["Allow"] = ", ".join(METHODS)
            return response
        return _plainly(error)

    add_description(app, commands)
    for rule in ("/client/api", "/client/api/", "/client/api/<path:rest>"):
        app.add_url_rule(rule, rule, call, methods=METHODS, strict_slashes=True, provide_automatic_options=False)
    app.register_error_handler(HTTPException, failed)
    return app


def create_monitoring_app(system: System) -> Flask:
    """Return the WSGI application that answers ``/health/ready`` and ``/metrics``."""
    app = Flask(__name__, static_folder=None)
    add_health(app, system)
    add_metrics(app, system)
    app.register_error_handler(HTTPException, _plainly)
    return app


def _plainly(error: HTTPException) -> Response:
    return Response(f"{error.code} {error.name}\n", error.code, content_type="text/plain; charset=UTF-8")


def _read(requested: Request, proxies: TrustedProxies) -> WireRequest:
    form = requested.get_data(cache=False) if requested.method == "POST" and requested.mimetype == FORM else b""
    return WireRequest(
        parameters=read_parameters(requested.query_string, form),
        method="POST" if requested.method == "POST" else "GET",
        cookies=requested.cookies,
        address=proxies.client(requested.remote_addr or "", requested.headers.get),
        origin=_origin(requested),
        traceparent=requested.headers.get(TRACE),
    )


def _origin(requested: Request) -> str:
    host = requested.headers.get("Host", "")
    return f"{'https' if _is_secure(requested) else 'http'}://{host}" if HOST.fullmatch(host) else ""


def _is_secure(requested: Request) -> bool:
    return requested.is_secure or requested.headers.get(FORWARDED, "").lower() == "https"


def _response(answered: WireAnswer) -> Response:
    if answered.etag and request.if_none_match.contains_weak(answered.etag):
        response = Response(status=304, headers=answered.headers)
    else:
        response = Response(answered.body, answered.status, answered.headers, content_type=answered.content_type)
    if answered.etag:
        response.set_etag(answered.etag)
    for cookie in answered.cookies:
        response.set_cookie(
            cookie.name,
            cookie.value or "",
            max_age=None if cookie.value else 0,
            path=COOKIE_PATH,
            secure=_is_secure(request),
            httponly=True,
            samesite="Strict",
        )
    return response
