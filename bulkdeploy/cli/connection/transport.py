"""Calls over HTTP, with timeouts and retries of calls that can safely be repeated.

Source: cloudstack-protocol.md 1.1-1.7. Every failure is one of ``cli.failures``.
"""

import random
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import requests

from bulkdeploy.cli.concealment import HIDDEN, is_secret, without_login
from bulkdeploy.cli.connection.authentication import EXPIRES_AFTER, Credentials
from bulkdeploy.cli.connection.clock import Clock
from bulkdeploy.cli.connection.profiles import Connection
from bulkdeploy.cli.failures import WORTH_REPEATING, ApiRefused, ConnectionFailed
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

NOTABLE_SKEW = 30.0


class Transport:
    """The HTTP connection of a profile to its API. The connection stays open between calls."""

    def __init__(self, connection: Connection, clock: Clock, print_debug: Callable[[str], None]) -> None:
        """Create the transport without connecting. ``print_debug`` receives each line of ``--debug`` output."""
        self.connection, self.clock, self.print_debug = connection, clock, print_debug
        self.http = requests.Session()
        self.http.headers["User-Agent"] = "bulkmonkey"
        self.credentials = Credentials(connection)

    def call(
        self,
        command: str,
        parameters: Mapping[str, str],
        *,
        repeatable: bool | None = None,
        attempts: int = ATTEMPTS,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Call a command, and return the object under the one top-level key of the response.

        ``repeatable`` states that the request can safely be sent twice; the default is true for commands that only
        read. Repeatable requests are sent up to ``attempts`` times, with growing pauses.

        Raises:
            ApiRefused: the API returned an error.
            ConnectionFailed: there was no response, or the response is not one of a CloudStack API.
        """
        reads = is_reading(command)
        tries = attempts if (reads if repeatable is None else repeatable) else 1
        for attempt in range(1, tries + 1):
            try:
                return self._answer(command, parameters, reads, timeout or self.connection.requesttimeout)
            except (ApiRefused, ConnectionFailed) as error:
                if attempt == tries or not error.passing:
                    raise
                pause = _pause(error, attempt)
                self.print_debug(f"{command}: {error.message}; again in {pause:.1f} s")
                self.clock.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Log out if there is a session, and close the connections."""
        self.credentials.end(self._send_once)
        self.http.close()

    def _answer(self, command: str, parameters: Mapping[str, str], reads: bool, timeout: float) -> dict[str, Any]:
        self.credentials.begin(self._send_once)
        try:
            return self._read(command, self._send(command, parameters, reads, timeout))
        except ApiRefused as error:
            if error.http_status != UNAUTHORISED or not self.credentials.forget_session():
                raise
        # The session had ended, so the call was not executed and can be repeated after a login.
        self.credentials.begin(self._send_once)
        return self._read(command, self._send(command, parameters, reads, timeout))

    def _send(self, command: str, parameters: Mapping[str, str], reads: bool, timeout: float) -> requests.Response:
        signed = self.credentials.applied_to({"response": "json", **parameters, "command": command})
        query = urlencode(signed, quote_via=quote, safe="*")
        method, url, body = addressed(self.connection.url, query, reads=reads)
        shown = {name: HIDDEN if is_secret(name) else without_login(value) for name, value in parameters.items()}
        self.print_debug(f"{method} {self.connection.url} command={command} {shown}")
        return self._request(method, url, body, timeout)

    def _send_once(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Send a form unsigned by POST, without retries, for login and logout."""
        body = urlencode({"response": "json", **form}, quote_via=quote)
        response = self._request("POST", self.connection.url, body, self.connection.requesttimeout)
        return self._read(form["command"], response)

    def _request(self, method: str, url: str, body: str | None, timeout: float) -> requests.Response:
        try:
            return self._unverified_in_silence(method, url, body, timeout)
        except requests.exceptions.SSLError as error:
            hint = (
                "Set REQUESTS_CA_BUNDLE to the file with the CA's certificates;"
                " 'set verifycert false' trusts any server"
            )
            message = f"the certificate of {self.connection.url} does not verify: {_root(error)}"
            raise ConnectionFailed(message, hint=hint, passing=False) from error
        except requests.exceptions.Timeout as error:
            message = f"no answer from {self.connection.url} within {timeout:g} seconds"
            raise ConnectionFailed(message) from error
        except requests.RequestException as error:
            hint = f"Is the API running, and is the url of profile {self.connection.profile} right?"
            message = f"cannot reach {self.connection.url}: {_root(error)}"
            raise ConnectionFailed(message, hint=hint) from error

    def _unverified_in_silence(self, method: str, url: str, body: str | None, timeout: float) -> requests.Response:
        """Send a request.

        If the user has disabled the verification of certificates, the library's warning is suppressed.
        """
        with warnings.catch_warnings():
            if not self.connection.verifycert:
                warnings.filterwarnings("ignore", "Unverified HTTPS request")
            # False overrides REQUESTS_CA_BUNDLE; True uses the authorities in that file.
            return send(self.http, method, url, body, timeout, verify=self.connection.verifycert)

    def _read(self, command: str, response: requests.Response) -> dict[str, Any]:
        body = object_in(response.content)
        if body is None:
            where = response.headers.get("Location")
            hint = f"It points to {where}: set url there" if where else "Is the url that of a CloudStack API?"
            raise ConnectionFailed(
                f"{self.connection.url} answered HTTP {response.status_code}, but not with a response of the API",
                hint=hint,
                http_status=response.status_code,
                passing=response.status_code in WORTH_REPEATING,
            )
        if response.status_code != requests.codes.ok or "errorcode" in body:
            hint = self._unauthorised(response) if response.status_code == UNAUTHORISED else ""
            raise ApiRefused(command, response.status_code, body, hint=hint)
        return body

    def _unauthorised(self, response: requests.Response) -> str:
        """Return a text with the probable reason why the API rejected the credentials."""
        skew = clock_skew(response)
        if self.credentials.signs and skew is not None and abs(skew) > NOTABLE_SKEW:
            direction = "behind" if skew > 0 else "ahead of"
            return (
                f"This machine's clock is {abs(skew):.0f} seconds {direction} the server's, and signed requests "
                f"are good for {EXPIRES_AFTER.total_seconds():.0f} seconds only: set this machine's clock"
            )
        if not self.credentials.given:
            return f"Profile {self.connection.profile} has no keys: set them with 'set apikey' and 'set secretkey'"
        return f"Check the keys of profile {self.connection.profile}, and that its user is enabled"


def _pause(error: ApiRefused | ConnectionFailed, attempt: int) -> float:
    """Return the seconds before the next attempt.

    The server can request a pause. Otherwise the pause grows with each attempt and is partly random.
    """
    requested = pause_in(error.message)
    if requested is not None:
        return requested
    # Random pauses only spread the attempts of many clients.
    return min(FIRST_PAUSE_S * 2.0 ** (attempt - 1) * random.SystemRandom().uniform(0.5, 1.5), LONGEST_PAUSE_S)


def _root(error: BaseException) -> str:
    """Return the innermost cause of an error, without the wrapping errors of connection pools."""
    reason: BaseException = error
    while True:
        inner = getattr(reason, "reason", None) or (reason.args[0] if reason.args else None)
        if not isinstance(inner, BaseException) or inner is reason:
            break
        reason = inner
    text = str(reason) or type(reason).__name__
    system = re.search(r"\[Errno -?\d+\] (.+)", text)
    return system.group(1) if system else text
