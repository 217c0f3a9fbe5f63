"""A client for CloudStack's API: it signs requests and limits their rate (one file: the protocol).

Requests that only read are repeated after failures. Source: cloudstack-protocol.md 1.1-1.8 and 2.1.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

import requests
from requests.adapters import HTTPAdapter

from bulkdeploy.cloudstack.exchanges import (
    ATTEMPTS,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    UNAUTHORISED,
    addressed,
    clock_skew,
    is_reading,
    object_in,
    pause_in,
    send,
)
from bulkdeploy.security.signature import JAVA, sign

Row = Mapping[str, Any]

OF_ACCOUNTS: Mapping[str, str] = {"listall": "true"}
"""Parameters of list commands that return the objects of all accounts."""

OF_PROJECTS: Mapping[str, str] = {"listall": "false", "projectid": "-1"}
"""Parameters of list commands that return the objects of all projects.

``listall=true`` would return the objects of accounts too. Source: ``buildACLSearchParameters`` of CloudStack.
"""

OF_EACH_OWNER = (OF_ACCOUNTS, OF_PROJECTS)
"""The parameters of the two calls that together return the objects of all owners."""

EXPIRES_AFTER = timedelta(minutes=10)
"""The time for which a signed request is valid; servers may refuse more than 15 minutes."""

TIMEOUT_S = 60.0
CONNECTIONS = 32
PAGE_SIZE = 500
"""The rows of a page: CloudStack's ``default.page.size``, which is also its maximum.

If a server allows fewer, its error message names its maximum, and the client uses that.
"""

WALKS = 3
"""The most times that a list is read. Pages may repeat rows and leave out others."""

IDS_AT_ONCE = 200
"""The most ids in one list call; a request with so many is not too long for any server."""

THROTTLED, INVALID = 429, 431
NOT_THERE = ("does not exist", "Unable to find")
"""Parts of CloudStack's error texts for an object that does not exist."""


NO_RESULT = "the job failed and gave no result, as after a restart of its management server"


class CallRefused(Exception):
    """CloudStack answered with an error.

    Attributes:
        command: the command.
        code: the ``errorcode``, which is also the HTTP status.
        cs_code: the ``cserrorcode``, or None if the response has none.
        text: the ``errortext``, unchanged.
    """

    def __init__(self, command: str, code: int, cs_code: int | None, text: str) -> None:
        self.command, self.code, self.cs_code, self.text = command, code, cs_code, text
        super().__init__(f"{command}: {code} {text}")


class NotAnswered(Exception):
    """CloudStack did not answer, or the response is not from a CloudStack.

    Attributes:
        command: the command.
        was_sent: whether CloudStack may have executed the command.
    """

    def __init__(self, command: str, reason: str, *, was_sent: bool) -> None:
        self.command, self.was_sent = command, was_sent
        super().__init__(f"{command}: {reason}")


@dataclass(frozen=True, slots=True)
class Access:
    """The address of a CloudStack's API, and the keys of a user.

    Attributes:
        url: the URL of the API, such as ``https://cloud.example.org/client/api``.
        api_key: the user's API key.
        secret_key: the user's secret key.
        ca_file: a file of certificates that the server's certificate is checked with; None: those of the system.
        calls_per_second: the most requests that this process sends in a second.
    """

    url: str
    api_key: str
    secret_key: str
    ca_file: str | None = None
    calls_per_second: float = 20.0


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a list command from all pages, without duplicates.

    Attributes:
        rows: the rows, in the order in which they were first read.
        count: the number of rows that CloudStack reported.
    """

    rows: list[Row]
    count: int

    @property
    def is_whole(self) -> bool:
        """Return whether as many rows were read as CloudStack reported."""
        return len(self.rows) >= self.count


@dataclass(frozen=True, slots=True)
class Job:
    """The state of an asynchronous job, as ``queryAsyncJobResult`` reports it.

    Attributes:
        is_over: whether the job has ended.
        code: 0 if the job has not failed; otherwise the ``errorcode`` in its result, or its ``jobresultcode``, or
            530.
        text: why the job failed; empty if it has not failed.
        result: the job's result; empty if there is none.
    """

    is_over: bool
    code: int
    text: str
    result: Row


class Client:
    """A client of one CloudStack.

    Threads may share it.

    Attributes:
        access: the address and keys.
        calls: the number of requests sent, by command; requests that cannot have arrived are not counted.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self.calls: Counter[str] = Counter()
        self._page_size = PAGE_SIZE
        self._turns = _Turns(access.calls_per_second)
        self._counting = threading.Lock()
        self._session = requests.Session()
        self._session.trust_env = False  # proxies in the environment are not meant for the cloud
        self._session.verify = access.ca_file or True
        self._session.headers["User-Agent"] = "bulkdeploy"
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=CONNECTIONS))

    def call(
        self, command: str, parameters: Mapping[str, str] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> Row:
        """Send a command, and return the object under the single top-level key of the response.

        A command that only reads is tried several times, with growing pauses. Any command is sent again if
        CloudStack rejected it because of too many calls, or if it cannot have reached CloudStack.

        Raises:
            CallRefused: CloudStack answered with an error.
            NotAnswered: there is no response, or not from a CloudStack.
        """
        reads = is_reading(command)
        end = time.monotonic() + timeout_s * (ATTEMPTS if reads else 1)
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._send(command, dict(parameters or {}), reads, timeout_s)
            except CallRefused as error:
                if error.code != THROTTLED or time.monotonic() > end:
                    raise
                continue  # the command was not executed; the rate limit delays the next try
            except NotAnswered as error:
                if attempt == ATTEMPTS or time.monotonic() > end or (error.was_sent and not reads):
                    raise
            time.sleep(min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))

    def list_all(
        self, command: str, parameters: Mapping[str, str] | None = None, *, key: tuple[str, ...] = ("id",)
    ) -> Listed:
        """Return all rows of a list command, each once.

        Pages are read until there are as many rows as CloudStack reports. If pages repeated some rows and left out
        others, the list is read again and the missing rows are added.

        Args:
            command: the list command.
            parameters: its parameters.
            key: the fields that identify a row.

        Raises:
            CallRefused, NotAnswered: see ``call``.
        """
        rows: dict[Any, Row] = {}
        count = 0
        for _ in range(WALKS):
            for found, counted in self.pages(command, parameters):
                rows.update((tuple(row.get(name) for name in key), row) for row in found)
                count = counted
            if len(rows) >= count:
                break
        return Listed(list(rows.values()), count)

    def by_ids(self, command: str, ids: Collection[str], parameters: Mapping[str, str]) -> list[Row]:
        """Return the rows with these ids. Ids that CloudStack does not know are skipped.

        CloudStack rejects a whole list because of the first unknown id. That id is removed and the call is
        repeated. If the error does not name a single id, the list is divided into halves until the id is found.

        Raises:
            CallRefused, NotAnswered: see ``call``.
        """
        left, at_once = sorted(set(ids)), IDS_AT_ONCE
        rows: list[Row] = []
        while left:
            batch = left[:at_once]
            try:
                for page, _ in self.pages(command, {**parameters, "ids": ",".join(batch)}):
                    rows += page
            except CallRefused as error:
                if error.code != INVALID or not is_not_there(error.text):
                    raise
                named = [one for one in batch if one in error.text]
                if len(batch) == 1 or len(named) == 1:
                    left.remove((named or batch)[0])
                else:
                    at_once = len(batch) // 2
                continue
            left, at_once = left[at_once:], min(2 * at_once, IDS_AT_ONCE)
        return rows

    def job(self, job_id: str) -> Job:
        """Return the state of an asynchronous job.

        Raises:
            CallRefused: status 431 if CloudStack does not know the job, or has already deleted its record.
            NotAnswered: see ``call``.
        """
        answer = self.call("queryAsyncJobResult", {"jobid": job_id})
        status, result = int(answer.get("jobstatus", 0)), answer.get("jobresult")
        held = result if isinstance(result, dict) else {}
        if status in (0, 1):
            return Job(status == 1, 0, "", held)
        # After a restart of the management server, the result is plain text, which 4.18 to 4.22 do not return:
        # AsyncJobManagerImpl.cleanupLeftOverJobs, ApiSerializerHelper.fromSerializedString.
        code = int(held.get("errorcode") or answer.get("jobresultcode") or 530)
        return Job(True, code, str(held.get("errortext") or result or NO_RESULT), held)

    def close(self) -> None:
        """Close the client's connections."""
        self._session.close()

    def pages(self, command: str, parameters: Mapping[str, str] | None = None) -> Iterator[tuple[list[Row], int]]:
        """Yield the pages of a list command, each read when it is needed, with the number of all rows.

        Raises:
            CallRefused, NotAnswered: see ``call``.
        """
        page, seen = 1, 0
        while True:
            size = self._page_size
            try:
                answer = self.call(command, {**(parameters or {}), "page": str(page), "pagesize": str(size)})
            except CallRefused as error:
                most = re.search(r"max allowed page size value: (\d+)", error.text)
                if most is None or int(most[1]) >= size:
                    raise
                self._page_size = int(most[1])
                page, seen = 1, 0
                continue
            found = rows_in(answer)
            count = int(answer.get("count", len(found)))
            yield found, count
            seen += len(found)
            if not found or seen >= count:
                return
            page += 1

    def _send(self, command: str, parameters: dict[str, str], reads: bool, timeout_s: float) -> Row:
        self._turns.wait()
        query = self._signed(command, parameters)
        method, url, body = addressed(self.access.url, query, reads=reads)
        try:
            response = send(self._session, method, url, body, timeout_s)
        except requests.exceptions.SSLError as error:
            reason = f"the TLS connection failed: {_without_query(error)}"
            raise NotAnswered(command, reason, was_sent=False) from None
        except (requests.exceptions.ConnectTimeout, requests.exceptions.ConnectionError) as error:
            was_sent = not _never_connected(error)
            if was_sent:
                self._count(command)
            raise NotAnswered(command, _without_query(error), was_sent=was_sent) from None
        except requests.RequestException as error:
            self._count(command)
            raise NotAnswered(command, _without_query(error), was_sent=True) from None
        self._count(command)
        return self._read(command, response)

    def _count(self, command: str) -> None:
        with self._counting:
            self.calls[command] += 1

    def _signed(self, command: str, parameters: dict[str, str]) -> str:
        expires = (datetime.now(UTC) + EXPIRES_AFTER).strftime("%Y-%m-%dT%H:%M:%S+0000")
        named = {
            **parameters,
            "command": command,
            "response": "json",
            "apiKey": self.access.api_key,
            "signatureVersion": "3",
            "expires": expires,
        }
        signature = sign(named, self.access.secret_key, bare=JAVA)
        return urlencode({**named, "signature": signature}, quote_via=quote, safe="*")

    def _read(self, command: str, response: requests.Response) -> Row:
        inner = object_in(response.content)
        if response.status_code == THROTTLED:
            text = str((inner or {}).get("errortext", "too many calls"))
            self._turns.pause(_pause_wanted(response, text))
            raise CallRefused(command, THROTTLED, None, text)
        if inner is None:
            reason = f"HTTP {response.status_code}, but the response is not from a CloudStack"
            raise NotAnswered(command, reason, was_sent=True)
        if response.ok and "errorcode" not in inner:
            return inner
        text = str(inner.get("errortext", ""))
        if response.status_code == UNAUTHORISED:
            text += _skew(response)
        cs_code = inner.get("cserrorcode")
        raise CallRefused(command, int(inner.get("errorcode", response.status_code)), cs_code, text)


class _Turns:
    """A rate limit for requests, which all threads share.

    Two requests begin at least ``1 / per_second`` seconds apart. No request begins during a pause that the server
    asked for.
    """

    def __init__(self, per_second: float) -> None:
        self._apart = 1 / per_second
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait until the caller may send a request."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._apart
        time.sleep(turn - now)

    def pause(self, seconds: float) -> None:
        """Let no thread send a request for this number of seconds."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


def rows_in(answer: Row) -> list[Row]:
    """Return the rows in the response of a list command, under any key. An empty response has no rows."""
    return next((value for name, value in answer.items() if name != "count" and isinstance(value, list)), [])


def is_not_there(text: str) -> bool:
    """Return whether an error text of CloudStack means that an object in the call does not exist."""
    return any(part in text for part in NOT_THERE)


def _without_query(error: requests.RequestException) -> str:
    """Return the text of an error without the queries of URLs.

    Error texts are logged, and a query contains the API key and the signature.
    """
    return re.sub(r"\?[\w.~%&=*-]+", "", str(error))


def _never_connected(error: requests.exceptions.ConnectionError) -> bool:
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return type(reason).__name__ in ("NewConnectionError", "ConnectTimeoutError", "NameResolutionError")


def _pause_wanted(response: requests.Response, text: str) -> float:
    """Return the seconds that the server asks to wait, in a header or in the error text; otherwise 1."""
    header = response.headers.get("Retry-After", "")
    if header.isdigit():
        return min(float(header), LONGEST_PAUSE_S)
    in_text = pause_in(text)
    return 1.0 if in_text is None else in_text


def _skew(response: requests.Response) -> str:
    ahead = clock_skew(response)
    if ahead is None or abs(ahead) < EXPIRES_AFTER.total_seconds() / 2:
        return ""
    return f" (the server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's)"
