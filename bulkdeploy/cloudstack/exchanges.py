"""HTTP requests to CloudStack's API, for all clients in this project (cloudstack-protocol.md 1.1-1.8)."""

import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

import orjson
import requests

LONGEST_URL = 2000
"""The most bytes of a URL; longer requests are sent as forms. Some servers reject 4094 bytes or more."""

READING_VERBS = ("list", "get", "query", "find")
CONNECT_TIMEOUT_S = 10.0
ATTEMPTS = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
UNAUTHORISED = 401


def is_reading(command: str) -> bool:
    """Return whether a command changes nothing, judging by its name, so that it may be repeated."""
    return command.startswith(READING_VERBS)


def addressed(url: str, query: str, *, reads: bool) -> tuple[str, str, str | None]:
    """Return the method, the URL and the body of a request.

    A command that only reads and is short is sent as a URL; every other command is sent as a form.
    """
    if reads and len(url) + len(query) < LONGEST_URL:
        return "GET", f"{url}?{query}", None
    return "POST", url, query


def send(
    session: requests.Session, method: str, url: str, body: str | None, timeout_s: float, **more: Any
) -> requests.Response:
    """Send a request and return the response, whatever its status.

    Redirects are not followed, because another server would then get the signature.

    Raises:
        requests.RequestException: there is no response.
    """
    headers = None if body is None else FORM
    timeouts = (min(CONNECT_TIMEOUT_S, timeout_s), timeout_s)
    return session.request(method, url, data=body, headers=headers, timeout=timeouts, allow_redirects=False, **more)


def object_in(content: bytes) -> dict[str, Any] | None:
    """Return the object under the single top-level key of a response.

    Returns None if the response is not from a CloudStack API.
    """
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or len(document) != 1:
        return None
    (inner,) = document.values()
    return inner if isinstance(inner, dict) else None


def pause_in(text: str) -> float | None:
    """Return the seconds after which an error text asks to retry, at most LONGEST_PAUSE_S.

    Returns None if the text does not ask for a pause.
    """
    found = re.search(r"retry after \[?(\d+)\]? ?ms", text)
    return min(int(found[1]) / 1000, LONGEST_PAUSE_S) if found else None


def clock_skew(response: requests.Response) -> float | None:
    """Return the seconds by which the server's clock is ahead of this machine's clock.

    Returns None if the response has no valid Date header.
    """
    try:
        return parsedate_to_datetime(response.headers.get("Date", "")).timestamp() - time.time()
    except ValueError:
        return None
