"""Who looks at the console: keeps cookies, sends forms, and reads pages without a browser."""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from typing import Any

import requests

from tests.support.runs.waiting import PATIENCE_S

Fields = Mapping[str, str | Sequence[str]]


class Page(HTMLParser):
    """What a page is made of: its elements with their attributes, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._silent = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._silent += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        """Words count again."""
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        """Note words."""
        if not self._silent and data.strip():
            self.words.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        """All words."""
        return " ".join(self.words)

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """The attributes of every such element."""
        wanted = attributes.items()
        return [found for name, found in self.elements if name == tag and wanted <= found.items()]


def each_form_has_the_key(page: Page) -> bool:
    """Whether each form that changes something has the session's key; the theme and signing in need no session."""
    forms = [one for one in page.all("form") if one.get("method") == "post" or "hx-post" in one]
    with_session = [one for one in forms if one.get("action") not in ("theme", "sign-in")]
    return len(with_session) == len(page.all("input", name="sessionkey"))


class Visitor:
    """A browser at the console that ``url`` serves, below ``prefix``."""

    def __init__(self, url: str, prefix: str = "") -> None:
        self.root = f"{url}{prefix}/console/"
        self.http = requests.Session()

    def close(self) -> None:
        """Let go of its connections."""
        self.http.close()

    def sign_in(self, username: str, password: str, **more: str) -> requests.Response:
        """Sign in; where that leads."""
        form = {"username": username, "password": password, **more}
        return self.http.post(f"{self.root}sign-in", data=form, timeout=PATIENCE_S)

    def get(self, page: str, **headers: str) -> requests.Response:
        """A page as it is answered: redirections are not followed."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.get(self.root + page, headers=named, allow_redirects=False, timeout=PATIENCE_S)

    def page(self, page: str) -> Page:
        """A page that must be there."""
        answer = self.get(page)
        assert answer.status_code == 200, (page, answer.status_code, answer.text[:2000])
        return Page(answer.text)

    def send(self, page: str, fields: Fields, *, key: str | None = None, **headers: str) -> requests.Response:
        """A form, with the session's key or another one."""
        own = self.http.cookies.get("sessionkey") or "" if key is None else key
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(
            self.root + page,
            data={**fields, "sessionkey": own},
            headers=named,
            allow_redirects=False,
            timeout=PATIENCE_S,
        )

    def call(self, command: str, **parameters: str) -> dict[str, Any]:
        """The content of the API's answer, called with the console's session beside the console."""
        cookies = dict(self.http.cookies)
        answer = requests.post(
            self.root.replace("/console/", "/client/api"),
            data={**parameters, "command": command, "response": "json", "sessionkey": cookies["sessionkey"]},
            headers={"Cookie": f"JSESSIONID={cookies['JSESSIONID']}"},
            timeout=PATIENCE_S,
        )
        ((_, content),) = answer.json().items()
        return dict(content)


def words_of(text: str) -> str:
    """What somebody reads of some HTML."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())
