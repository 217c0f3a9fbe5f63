"""A small client for tests: signs as CloudStack clients do and shows whole answers."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from bulkdeploy.security.signature import sign
from tests.support.runs.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.text)

    @property
    def body(self) -> dict[str, Any]:
        """What stands under the one top-level key."""
        ((_, inner),) = self.json.items()
        return dict(inner)


class ApiFailure(Exception):
    """A call that was refused."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.status = answer.status
        body = answer.body if answer.text.startswith("{") else {"errortext": answer.text}  # overloaded: plain text
        self.errorcode = body.get("errorcode")
        self.cserrorcode = body.get("cserrorcode")
        self.errortext = body.get("errortext", "")
        super().__init__(f"{self.status}: {self.errortext}")


@dataclass(frozen=True, slots=True)
class ApiClient:
    """Calls the API at ``url`` (``http://host:port``) with one user's keys."""

    url: str
    api_key: str
    secret_key: str

    def signed(self, command: str, **parameters: object) -> dict[str, str]:
        """The parameters of a signed request."""
        values = {name: str(value) for name, value in parameters.items()}
        values = {"response": "json", **values, "command": command, "apiKey": self.api_key}
        return {**values, "signature": sign(values, self.secret_key)}

    def get(self, command: str, **parameters: object) -> Answer:
        """A signed GET; the whole answer, whatever its status."""
        query = urlencode(self.signed(command, **parameters), quote_via=quote)
        return self.request("GET", f"/client/api?{query}")

    def post(self, command: str, **parameters: object) -> Answer:
        """A signed POST with a form body."""
        form = urlencode(self.signed(command, **parameters), quote_via=quote)
        return self.request("POST", "/client/api", form, {"Content-Type": "application/x-www-form-urlencoded"})

    def call(self, command: str, **parameters: object) -> dict[str, Any]:
        """The content of a successful answer.

        Raises:
            ApiFailure: any status but 200.
        """
        answer = self.post(command, **parameters)
        if answer.status != 200:
            raise ApiFailure(answer)
        return answer.body

    def request(
        self, method: str, target: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Any request over a fresh connection."""
        link = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE_S)
        try:
            link.request(method, target, body, headers or {})
            response = link.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            link.close()
