"""One request of a browser: who asks, what the API says to that person, and the page that comes of it."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from flask import Request, Response

from bulkdeploy.console.calls import Calls, Wsgi
from bulkdeploy.console.rendering import Pages

TOKEN_COOKIE = "JSESSIONID"  # noqa: S105 - the cookie's name
KEY = "sessionkey"
NAME_COOKIE = "consoleuser"
THEME_COOKIE = "consoletheme"
THEMES = ("light", "dark")
KNOWN_FOR_S = 60.0
MOST_KNOWN = 1000


class Permissions:
    """Which commands each session may call, as listApis said within the last minute.

    It only decides which links and buttons a page has: whatever is called, the API decides anew.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()
        self._lock = Lock()

    def of(self, token: str, calls: Calls) -> frozenset[str]:
        """The names of the commands that the session of this token may call."""
        key = hashlib.sha256(token.encode()).hexdigest()
        with self._lock:
            known = self._known.get(key)
        if known is None or known[0] < time.monotonic():
            names = frozenset(str(api["name"]) for api in calls.rows("listApis"))
            known = (time.monotonic() + KNOWN_FOR_S, names)
            with self._lock:
                self._known[key] = known
                self._known.move_to_end(key)
                while len(self._known) > MOST_KNOWN:
                    self._known.popitem(last=False)
        return known[1]


@dataclass(frozen=True, slots=True)
class Visit:
    """What a page is made from.

    Attributes:
        given: the parameters of the URL.
        may: the commands that this person may call.
    """

    request: Request
    calls: Calls
    given: dict[str, str]
    may: frozenset[str]
    pages: Pages

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of the form that was sent."""
        return self.request.form

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """The page that a template makes of ``values``; 304 where the browser has it.

        All that a page shows comes from the URL, the session and answers of the API: what these make together is
        known before anything is drawn.
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
            "given": self.given | ({"column": columns} if (columns := self.request.args.getlist("column")) else {}),
            "sessionkey": cookies.get(KEY, ""),
            "user": cookies.get(NAME_COOKIE, ""),
            "theme": theme if theme in THEMES else "",
            "here": self.request.path.rpartition("/")[2],
        }


def open_visit(request: Request, api: Wsgi, permissions: Permissions, pages: Pages) -> Visit:
    """The visit of a request's session.

    Raises:
        SignedOut: there is no session.
    """
    key = request.form.get(KEY, "") if request.method == "POST" else request.cookies.get(KEY, "")
    calls = Calls(api, request.environ, key)
    may = permissions.of(request.cookies.get(TOKEN_COOKIE, ""), Calls(api, request.environ, key))
    return Visit(request, calls, request.args.to_dict(), may, pages)
