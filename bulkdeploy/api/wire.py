"""A request and a response as values, independent of the web framework."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from bulkdeploy.domain.errors import RequestTooLarge

MOST_BODY_BYTES = 16 * 1024 * 1024
MOST_PARAMETERS = 2000


@dataclass(frozen=True, slots=True)
class WireRequest:
    """An HTTP request as it was received.

    Attributes:
        parameters: decoded values by name as sent, of query and form body together.
        method: GET or POST.
        address: where it came from, for the log.
        origin: see Call.
        traceparent: the span that it is part of, as its header has it (``tracing``).
    """

    parameters: Mapping[str, str]
    method: str = "GET"
    cookies: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    origin: str = ""
    traceparent: str | None = None
    _in_lower_case: dict[str, str] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Spell all names in lower case, once."""
        for name, value in self.parameters.items():
            self._in_lower_case.setdefault(name.lower(), value)

    def in_any_case(self, name: str) -> str | None:
        """Return the parameter that is spelled ``name`` in any case; the first of several."""
        return self._in_lower_case.get(name.lower())

    @property
    def command(self) -> str | None:
        """The requested command, or None. Both its name and the name of the parameter are case-sensitive."""
        return self.parameters.get("command") or None

    @property
    def wants_json(self) -> bool:
        """Return whether the answer is to be JSON; without ``response=json`` it is XML."""
        return self.parameters.get("response", "").lower() == "json"


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie to set; without a value, to remove."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """An answer that is ready to be sent.

    Attributes:
        etag: names the body, for clients that have it already; empty: nobody keeps such an answer.
    """

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[Cookie, ...] = ()
    etag: str = ""


def read_parameters(query: bytes, form: bytes) -> dict[str, str]:
    """Decode the parameters of a request by name.

    The query string overrides the form, and the first of several values overrides the others. A part without ``=``
    is ignored. Invalid UTF-8 becomes U+FFFD (cloudstack-protocol.md 1.1).

    Raises:
        RequestTooLarge: more than MOST_PARAMETERS pieces.
    """
    if query.count(b"&") + form.count(b"&") >= MOST_PARAMETERS:
        raise RequestTooLarge("parameters", MOST_PARAMETERS)
    parameters: dict[str, str] = {}
    for encoded in (query, form):
        for piece in encoded.decode("utf-8", "replace").split("&"):
            name, sign, value = piece.partition("=")
            if sign:
                parameters.setdefault(unquote_plus(name), unquote_plus(value))
    return parameters
