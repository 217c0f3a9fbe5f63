"""The console as a web application in front of the API: it serves ``/console/``; the API serves all other paths."""

from collections.abc import Callable, Iterable, Mapping
from http.cookies import SimpleCookie
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from flask import Flask, Request, Response, redirect, request, send_from_directory
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from bulkdeploy.console.calls import ApiRefused, Environ, SignedOut, Wsgi, call_api, content_of
from bulkdeploy.console.pages import (
    capacity,
    deploy,
    deployment,
    health,
    overview,
    tables,
    things,
    topology,
    virtual_machine,
)
from bulkdeploy.console.rendering import PAGE_ADDRESS, STATIC, Pages, address
from bulkdeploy.console.visit import (
    KEY,
    NAME_COOKIE,
    THEME_COOKIE,
    THEMES,
    TOKEN_COOKIE,
    Permissions,
    Visit,
    open_visit,
)

PREFIX = "/console"
ELSEWHERE: Mapping[str, str] = MappingProxyType({"/": "console/", "/client": "console/", "/client/": "../console/"})
"""Addresses that people type to find a console, and where it is from there; CloudStack's own is at ``/client/``."""

FORWARDED = "X-Forwarded-Proto"
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
)
YEAR_S = 31_536_000
NOT_FOUND, REFUSED = 404, 422
PASSING = (429, 503)
"""What the API says when the same call may be answered later."""
View: TypeAlias = Callable[[Visit], Response]
VIEWS: Mapping[tuple[str, str], View] = MappingProxyType(
    {
        key: view
        for module in (things, overview, deploy, deployment, tables, virtual_machine, capacity, topology, health)
        for key, view in module.VIEWS.items()
    }
)
"""Pages by method and name."""


def with_console(api: Wsgi) -> Wsgi:
    """Return a WSGI application that serves the console and passes all other paths to the API."""
    console = create_console(api)

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        mine = path == PREFIX or path.startswith(f"{PREFIX}/") or path in ELSEWHERE
        return (console if mine else api)(environ, start_response)

    return application


def create_console(api: Wsgi) -> Flask:
    """Return the console as a Flask application. The WSGI application ``api`` executes its API calls."""
    app = Flask(__name__, static_folder=None)
    pages, permissions = Pages(), Permissions()
    front = _Front(api, pages, permissions)
    app.add_url_rule(PREFIX, "root", lambda: redirect("console/"), strict_slashes=True)
    for path in ELSEWHERE:
        app.add_url_rule(path, f"from {path}", lambda: redirect(ELSEWHERE[request.path]), strict_slashes=True)
    app.add_url_rule(f"{PREFIX}/", "home", front.home)
    app.add_url_rule(f"{PREFIX}/static/<path:name>", "static_file", _static_file)
    app.add_url_rule(f"{PREFIX}/sign-in", "sign_in", front.sign_in, methods=["GET", "POST"])
    app.add_url_rule(f"{PREFIX}/sign-out", "sign_out", front.sign_out, methods=["POST"])
    app.add_url_rule(f"{PREFIX}/theme", "theme", front.theme, methods=["POST"])
    app.add_url_rule(f"{PREFIX}/vnc", "vnc", front.vnc)
    app.add_url_rule(f"{PREFIX}/<name>", "page", front.page, methods=["GET", "POST"])
    app.before_request(front.refuse_other_sites)
    app.after_request(_with_headers)
    app.register_error_handler(HTTPException, front.failed)
    app.register_error_handler(ApiRefused, front.cannot_answer)
    app.autocorrect_location_header = False  # type: ignore[attr-defined]
    return app


class _Front:
    """The common parts of all pages: the session, the rejection of forms from other sites, and error pages."""

    def __init__(self, api: Wsgi, pages: Pages, permissions: Permissions) -> None:
        self._api, self._pages, self._permissions = api, pages, permissions

    def home(self) -> Response:
        """Redirect to the first page that the user may see, or to the sign-in form if there is no session."""
        try:
            visit = self._visit()
        except SignedOut:
            return self._to_sign_in()
        return _go("overview" if "listVirtualMachines" in visit.may else "virtual-machines")

    def page(self, name: str) -> Response:
        """Return a page of the console, or a page with the error text if the API rejects a call."""
        method = "GET" if request.method == "HEAD" else request.method
        view = VIEWS.get((method, name))
        if view is None:
            raise MethodNotAllowed if any(known == name for _, known in VIEWS) else NotFound
        try:
            visit = self._visit()
            try:
                return view(visit)
            except ApiRefused as refused:
                template = "fragments/refused.html" if "HX-Request" in request.headers else "refused.html"
                return visit.page(template, _status(refused), text=str(refused))
        except SignedOut:
            return self._to_sign_in()

    def sign_in(self) -> Response:
        """Return the sign-in form, or start a session with the submitted form."""
        wanted = request.values.get("next", "")
        target = wanted if PAGE_ADDRESS.fullmatch(wanted) else ""
        if request.method != "POST":
            return self._sign_in_form(target, has_expired="over" in request.args)
        names = {name: request.form.get(name, "") for name in ("username", "password", "domain")}
        status, body, headers = call_api(self._api, request.environ, "login", names, None)
        try:
            begun = content_of(status, body)
        except ApiRefused as refused:
            return self._sign_in_form(target, error=str(refused), status=status if status in PASSING else 403)
        answer = _go(target or "./")
        cookies = SimpleCookie()
        for header, value in headers:
            if header.lower() == "set-cookie":
                cookies.load(value)
        _set_cookie(answer, TOKEN_COOKIE, cookies[TOKEN_COOKIE].value)
        _set_cookie(answer, KEY, begun["sessionkey"])
        _set_cookie(answer, NAME_COOKIE, str(begun["username"]))
        return answer

    def sign_out(self) -> Response:
        """End the session. A request without the session's key only loses its cookies."""
        if request.form.get(KEY, "") == request.cookies.get(KEY):
            call_api(self._api, request.environ, "logout", None, request.form.get(KEY))
        answer = _go("sign-in")
        answer.headers["Clear-Site-Data"] = '"cache"'
        for name in (TOKEN_COOKIE, KEY, NAME_COOKIE):
            _set_cookie(answer, name, None)
        return answer

    def theme(self) -> Response:
        """Store the submitted colour theme in a cookie and redirect to the previous page.

        An unknown value deletes the cookie.
        """
        wanted = request.form.get("theme", "")
        back = request.form.get("next", "")
        answer = _go(back if PAGE_ADDRESS.fullmatch(back) else "./")
        _set_cookie(answer, THEME_COOKIE, wanted if wanted in THEMES else None, max_age=YEAR_S)
        return answer

    def vnc(self) -> Response:
        """Return the page with a VM's screen.

        It needs no session, because the console token in the URL grants access.
        """
        page = self._pages.render("vnc.html", theme=_theme(request))
        return Response(page, content_type="text/html; charset=UTF-8")

    def refuse_other_sites(self) -> Response | None:
        """Reject a form that a page of another site sent. Returns None for an accepted request.

        Each browser sends ``Origin`` with a form; ``Sec-Fetch-Site`` is missing in old browsers and without TLS. A
        request with neither header comes from a program, because no page can make a browser send such a request.
        """
        if request.method != "POST":
            return None
        origin = request.headers.get("Origin")
        of_other_site = origin is not None and urlsplit(origin).netloc.lower() != request.host.lower()
        if of_other_site or request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return Response(self._pages.texts.errors.other_site, 403, content_type="text/plain; charset=UTF-8")
        return None

    def failed(self, error: HTTPException) -> Response:
        """Return the page for an unknown page or a method that a page does not have."""
        text = self._pages.render(
            "plain.html",
            theme=_theme(request),
            title=error.name,
            text=self._pages.texts.errors.get(str(error.code)),
        )
        return Response(text, error.code, content_type="text/html; charset=UTF-8")

    def cannot_answer(self, refused: ApiRefused) -> Response:
        """Return the page for a request for which the API is not available.

        For example, the database is unreachable, or there were too many calls.
        """
        title = self._pages.texts.errors.cannot_answer
        text = self._pages.render("plain.html", theme=_theme(request), title=title, text=str(refused))
        return Response(text, _status(refused), content_type="text/html; charset=UTF-8")

    def _visit(self) -> Visit:
        return open_visit(request, self._api, self._permissions, self._pages)

    def _to_sign_in(self) -> Response:
        """Redirect to the sign-in form, which leads back to this page afterwards.

        If a script requested a fragment, the response makes the browser load the whole sign-in page.
        """
        had = TOKEN_COOKIE in request.cookies
        where = request.headers.get("HX-Current-URL", request.full_path) if _is_fragment() else request.full_path
        where = where.rpartition("/console/")[2].rstrip("?")
        wanted = where if PAGE_ADDRESS.fullmatch(where) and (request.method == "GET" or _is_fragment()) else ""
        target = address("sign-in", over="1" if had else "", next=wanted)
        if _is_fragment():
            return Response(status=200, headers={"HX-Redirect": target})
        return _go(target)

    def _sign_in_form(
        self, target: str, *, has_expired: bool = False, error: str = "", status: int = 200
    ) -> Response:
        given = request.form if request.method == "POST" else {}
        text = self._pages.render(
            "sign_in.html",
            theme=_theme(request),
            next=target,
            over=has_expired,
            error=error,
            username=given.get("username", ""),
            domain=given.get("domain", ""),
        )
        return Response(text, status, content_type="text/html; charset=UTF-8")


def _status(refused: ApiRefused) -> int:
    """Return the HTTP status of a refusal: temporary, not found, or else 422."""
    return refused.status if refused.status in (NOT_FOUND, *PASSING) else REFUSED


def _is_fragment() -> bool:
    return "HX-Request" in request.headers


def _theme(requested: Request) -> str:
    theme = requested.cookies.get(THEME_COOKIE)
    return theme if theme in THEMES else ""


def _go(where: str) -> Response:
    """Return a redirect to another page of the console.

    The address is relative, so that it works behind any proxy.
    """
    return Response(status=303, headers={"Location": where})


def _set_cookie(answer: Response, name: str, value: str | None, max_age: int | None = None) -> None:
    """Set a cookie for the console's pages, or delete the cookie if ``value`` is empty.

    The cookie has no path, so that the browser derives the path from the URL that it requested.
    """
    answer.set_cookie(
        name,
        value or "",
        max_age=max_age if value else 0,
        path=None,
        secure=request.is_secure or request.headers.get(FORWARDED, "").lower() == "https",
        httponly=True,
        samesite="Lax",
    )


def _static_file(name: str) -> Response:
    answer = send_from_directory(STATIC, name)
    answer.headers["Cache-Control"] = f"public, max-age={YEAR_S}, immutable"
    return answer


def _with_headers(answer: Response) -> Response:
    answer.headers.extend(HEADERS)
    answer.headers.setdefault("Cache-Control", "private, no-cache")
    return answer
