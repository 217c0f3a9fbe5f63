"""Authentication: an API key that signs each request, or a login session.

Source: cloudstack-protocol.md 2.1 and 2.2.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bulkdeploy.cli.connection.profiles import Connection
from bulkdeploy.cli.failures import CommandFailed
from bulkdeploy.security.signature import sign

EXPIRES_AFTER = timedelta(minutes=10)
"""How long a signed request is good for; servers may refuse more than 15 minutes."""

Send = Callable[[Mapping[str, str]], dict[str, Any]]
"""Posts a form of parameters; returns what is inside the answer."""


class Credentials:
    """The credentials of a profile, which sign requests or open a session."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.session_key: str | None = None

    @property
    def signs(self) -> bool:
        """Return whether requests are signed with keys."""
        return bool(self.connection.apikey and self.connection.secretkey)

    @property
    def given(self) -> bool:
        """Return whether the profile names any credentials."""
        return self.signs or bool(self.connection.username)

    def begin(self, send: Send) -> None:
        """Log in, if the profile uses a username and there is no session yet."""
        if self.signs or not self.connection.username or self.session_key is not None:
            return
        domain = self.connection.domain.strip("/")
        form = {"command": "login", "username": self.connection.username, "password": self.connection.password}
        answer = send({**form, "domain": f"/{domain}/"} if domain else form)
        self.session_key = str(answer.get("sessionkey") or "")

    def end(self, send: Send) -> None:
        """Log out if there is a session. Errors are ignored, because the server ends unused sessions itself."""
        if self.session_key is None:
            return
        key, self.session_key = self.session_key, None
        try:
            send({"command": "logout", "sessionkey": key})
        except CommandFailed:
            return

    def forget_session(self) -> bool:
        """Drop a session that the server no longer accepts, and return whether there was a session."""
        had_one, self.session_key = self.session_key is not None, None
        return had_one

    def applied_to(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters with the user's authentication: a signature or the session key."""
        if self.signs:
            expires = (datetime.now(UTC) + EXPIRES_AFTER).strftime("%Y-%m-%dT%H:%M:%S+0000")
            named = {**parameters, "apiKey": self.connection.apikey, "signatureVersion": "3", "expires": expires}
            return {**named, "signature": sign(named, self.connection.secretkey)}
        if self.session_key:
            return {**parameters, "sessionkey": self.session_key}
        return dict(parameters)
