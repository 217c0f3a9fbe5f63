"""API calls in the name of the signed-in user. The console reads and changes data only by such calls.

A call is a POST to ``/client/api`` inside the process. It has the cookies, address and proxy headers of the
browser's request. So the API identifies, authorises, limits and logs it like any other call.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import urlencode

import orjson

from bulkdeploy.cli.connection.catalogue import Api

Environ: TypeAlias = dict[str, Any]
Wsgi: TypeAlias = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
Row: TypeAlias = Mapping[str, Any]

UNAUTHORISED, NOT_AVAILABLE = 401, 432
READING = ("list", "find", "query", "get")
"""How the names of commands begin that change nothing."""
MOST_PAGES = 200


class ApiRefused(Exception):
    """Raised when the API rejects a call. The text of the error is the API's own text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class SignedOut(Exception):
    """Raised when the request has no session or its session has ended."""


class ChangeByGet(Exception):
    """Raised when a page that is requested by GET makes a call that changes something.

    This is a defect of the page.
    """


class Calls:
    """The API calls that one browser request makes.

    Args:
        session_key: the value of the parameter ``sessionkey``. Requests by GET have it from the browser's cookie.
            Requests that change something have it from the submitted form, which other sites cannot read.
        may: the commands that the user may call, by name. Dry runs are accepted for commands with a parameter
            ``dryrun``.
    """

    def __init__(
        self, api: Wsgi, environ: Environ, session_key: str, may: Mapping[str, Api] = MappingProxyType({})
    ) -> None:
        self._api, self._environ, self._session_key, self._may = api, environ, session_key, may
        self._only_reads = environ["REQUEST_METHOD"] != "POST"
        self._seen = hashlib.sha256()

    @property
    def digest(self) -> str:
        """A digest of all API responses so far. An equal digest means that the page did not change."""
        return self._seen.hexdigest()

    def __call__(self, command: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Call a command of the API and return the contents of the response.

        Raises:
            SignedOut: there is no session, or the session has ended.
            ApiRefused: the API rejected the call, or is temporarily not available.
            ChangeByGet: the call changes something, and the request is not a POST. A dry run of a command that
                declares ``dryrun`` is allowed, because a dry run stores at most its plan.
        """
        if self._only_reads and not command.startswith(READING) and not self._is_dry_run(command, parameters):
            raise ChangeByGet(command)
        status, body, _ = call_api(self._api, self._environ, command, parameters, self._session_key)
        self._seen.update(body)
        return content_of(status, body)

    def _is_dry_run(self, command: str, parameters: Mapping[str, object] | None) -> bool:
        if (parameters or {}).get("dryrun") is not True:
            return False
        api = self._may.get(command)
        if api is None:
            raise ApiRefused(NOT_AVAILABLE, f"The API {command} is not available for this account")
        return api.parameter("dryrun") is not None

    def rows(self, command: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Return the rows of one page of a list command."""
        return self.page(command, parameters)[0]

    def page(
        self, command: str, parameters: Mapping[str, object] | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """Return the rows of one page of a list command, and the total number of rows."""
        content = self(command, parameters)
        rows = next((value for value in content.values() if isinstance(value, list)), [])
        return rows, int(content.get("count") or len(rows))

    def every_row(
        self,
        command: str,
        parameters: Mapping[str, object] | None = None,
        *,
        page_size: int,
        most: int = MOST_PAGES,
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a list command. Up to ``most`` pages are read one after the other."""
        for number in range(1, most + 1):
            rows = self.rows(command, {**(parameters or {}), "page": number, "pagesize": page_size})
            yield from rows
            if len(rows) < page_size:
                return


def call_api(
    api: Wsgi, environ: Environ, command: str, parameters: Mapping[str, object] | None, session_key: str | None
) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Call the API for the request ``environ``, and return the status, body and headers of the response."""
    sent = {name: _text(value) for name, value in (parameters or {}).items() if value not in (None, "")}
    sent |= {"command": command, "response": "json"} | ({} if session_key is None else {"sessionkey": session_key})
    form = urlencode(sent).encode()
    own = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/client/api",
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
        "CONTENT_LENGTH": str(len(form)),
        "wsgi.input": BytesIO(form),
    }
    kept = {name: value for name, value in environ.items() if not name.startswith(("werkzeug.", "flask."))}
    begun: list[tuple[int, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> None:
        del exc_info
        begun.append((int(status[:3]), headers))

    parts = api({**kept, **own}, start_response)
    try:
        body = b"".join(parts)
    finally:
        close = getattr(parts, "close", None)
        if close is not None:
            close()
    status, headers = begun[-1]
    return status, body, headers


def content_of(status: int, body: bytes) -> dict[str, Any]:
    """Return the object under the top-level key of a response.

    Raises:
        SignedOut: the status is 401: there is no session, or the session has ended.
        ApiRefused: the status is another error.
    """
    content: dict[str, Any] = next(iter(orjson.loads(body).values()))
    if status == UNAUTHORISED:
        raise SignedOut
    if status >= 400:
        raise ApiRefused(status, str(content.get("errortext") or status))
    return content


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
