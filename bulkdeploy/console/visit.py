"""A request of a browser: its user, the calls in the user's name, and the resulting page."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeAlias

from flask import Request, Response

from bulkdeploy.cli.connection.catalogue import Api, read_catalogue
from bulkdeploy.console.calls import Calls, Wsgi
from bulkdeploy.console.nouns import GROUPS, NOUNS
from bulkdeploy.console.rendering import Pages

TOKEN_COOKIE = "JSESSIONID"  # noqa: S105 - the cookie's name
KEY = "sessionkey"
NAME_COOKIE = "consoleuser"
THEME_COOKIE = "consoletheme"
THEMES = ("light", "dark")
KNOWN_FOR_S = 60.0
MOST_KNOWN = 1000
MOST_ROLES = 20
"""Different answers of listApis that are kept; sessions with the same rights share one."""

Apis: TypeAlias = Mapping[str, Api]
"""Commands by name, as listApis describes them to a session."""


class Permissions:
    """A cache of the commands that each session may call, read from listApis at most once a minute.

    The cache only decides which links and buttons a page shows. The API checks the permission of every call itself.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, Apis]] = OrderedDict()
        self._shared: dict[str, Apis] = {}
        self._lock = Lock()

    def of(self, token: str, calls: Calls) -> Apis:
        """Return the commands that the session with this token may call, with their descriptions from listApis."""
        key = hashlib.sha256(token.encode()).hexdigest()
        with self._lock:
            known = self._known.get(key)
        if known is None or known[0] < time.monotonic():
            rows = calls.rows("listApis")
            shared = self._shared.get(calls.digest)
            if shared is None:
                shared = MappingProxyType({api.name: api for api in read_catalogue(rows)})
                self._shared[calls.digest] = shared
            known = (time.monotonic() + KNOWN_FOR_S, shared)
            with self._lock:
                self._known[key] = known
                self._known.move_to_end(key)
                while len(self._known) > MOST_KNOWN:
                    self._known.popitem(last=False)
                if len(self._shared) > MOST_ROLES:
                    self._shared.clear()
        return known[1]


@dataclass(frozen=True, slots=True)
class Visit:
    """A browser's request with the data from which its page is created.

    Attributes:
        given: the parameters of the URL.
        may: the commands that the user may call, by name, with their descriptions from listApis.
    """

    request: Request
    calls: Calls
    given: dict[str, str]
    may: Apis
    pages: Pages

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of the submitted form."""
        return self.request.form

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return the page that a template creates from ``values``, or status 304 if the browser has the same page.

        A page depends only on the URL, the session and the API responses. Their digest is compared before the page
        is rendered.
        """
        cookies = self.request.cookies
        state = (
            template,
            self.request.full_path,
            cookies.get(KEY),
            cookies.get(THEME_COOKIE),
            cookies.get(NAME_COOKIE),
        )
        tag = hashlib.sha256(f"{state}{self.calls.digest}{self.pages.version}".encode()).hexdigest()[:32]
        if self.request.method == "GET" and status == 200 and tag in self.request.if_none_match:
            answer = Response(status=304)
        else:
            text = self.pages.render(template, **self._frame(), **values)
            answer = Response(text, status, content_type="text/html; charset=UTF-8")
        if self.request.method == "GET":
            answer.set_etag(tag)
        return answer

    def _frame(self) -> dict[str, Any]:
        cookies = self.request.cookies
        theme = cookies.get(THEME_COOKIE)
        return {
            "may": self.may,
            "menu": menu_of(self.may),
            "given": self.given | ({"column": columns} if (columns := self.request.args.getlist("column")) else {}),
            "sessionkey": cookies.get(KEY, ""),
            "user": cookies.get(NAME_COOKIE, ""),
            "theme": theme if theme in THEMES else "",
            "here": self.request.path.rpartition("/")[2],
        }


@lru_cache(MOST_ROLES)
def _menu(names: frozenset[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (group, pages)
        for group in GROUPS
        if (pages := tuple(noun.page for noun in NOUNS if noun.group == group and noun.lists in names))
    )


def menu_of(may: Apis) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the groups of the menu, each with the list pages that the user may see."""
    return _menu(frozenset(may))


def open_visit(request: Request, api: Wsgi, permissions: Permissions, pages: Pages) -> Visit:
    """Return the visit of a request's session.

    Raises:
        SignedOut: there is no session.
    """
    key = request.form.get(KEY, "") if request.method == "POST" else request.cookies.get(KEY, "")
    may = permissions.of(request.cookies.get(TOKEN_COOKIE, ""), Calls(api, request.environ, key))
    return Visit(request, Calls(api, request.environ, key, may), request.args.to_dict(), may, pages)
