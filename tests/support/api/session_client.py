"""A client that logs in and keeps cookies, as a console does."""

from typing import Any

import requests

from tests.support.runs.waiting import PATIENCE_S

PASSWORD = "open sesame"


class Browser:
    """A client with cookies."""

    def __init__(self, url: str) -> None:
        self.address = f"{url}/client/api"
        self.http = requests.Session()

    def login(self, username: str, password: str, **more: str) -> requests.Response:
        """Log in by POST, as consoles do."""
        form = {"command": "login", "response": "json", "username": username, "password": password, **more}
        return self.http.post(self.address, data=form, timeout=PATIENCE_S)

    def call(self, command: str = "listCapabilities", **parameters: str) -> requests.Response:
        """A call by GET, with whatever cookies there are, and with the session key as console and cmk give it."""
        key = self.http.cookies.get("sessionkey")
        query = {"command": command, "response": "json", **({"sessionkey": key} if key else {}), **parameters}
        return self.http.get(self.address, params=query, timeout=PATIENCE_S)


def error_of(response: requests.Response) -> dict[str, Any]:
    """The object of an error answer."""
    ((_, content),) = response.json().items()
    return dict(content)
