"""A request and a response as Python objects that do not depend on Flask."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from bulkdeploy.domain.errors import RequestTooLarge

MOST_BODY_BYTES = 16 * 1024 * 1024
MOST_PARAMETERS = 2000


@dataclass(frozen=True, slots=True)
class WireRequest:
    """An HTTP request.

    Attributes:
        parameters: decoded values by name as sent, from the query and the form body.
        method: GET or POST.
        cookies: cookies by name.
        address: the client's address.
        origin: scheme, host and port under which the client reached the API; see ``Call``.
        traceparent: the header ``traceparent``, which names the client's span; None if the request has none.
    """

    parameters: Mapping[str, str]
    method: str = "GET"
    cookies: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    origin: str = ""
    traceparent: str | None = None
    _in_lower_case: dict[str, str] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Index the parameters by their names in lower case."""
        for name, value in self.parameters.items():
            self._in_lower_case.setdefault(name.lower(), value)

    def in_any_case(self, name: str) -> str | None:
        """Return the value of the parameter ``name``, ignoring upper and lower case, or None.

        If several parameters match, the first is returned.
        """
        return self._in_lower_case.get(name.lower())

    @property
    def command(self) -> str | None:
        """The requested command, or None. The name ``command`` and its value are case-sensitive."""
        return self.parameters.get("command") or None

    @property
    def wants_json(self) -> bool:
        """Return whether the response must be JSON. Without ``response=json`` the response is XML."""
        return self.parameters.get("response", "").lower() == "json"


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie that the response sets, or removes if ``value`` is None."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """A response that is ready to be sent.

    Attributes:
        etag: an identifier of the body, for clients that ask only for changes; empty if the response has no entity
            tag.
    """

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[Cookie, ...] = ()
    etag: str = ""


def read_parameters(query: bytes, form: bytes) -> dict[str, str]:
    """Return the parameters of a request by name, decoded.

    The query takes precedence over the form, and the first of several values over the others. A part without ``=``
    is ignored. Invalid UTF-8 becomes U+FFFD (cloudstack-protocol.md 1.1).

    Raises:
        RequestTooLarge: the request has more than MOST_PARAMETERS parameters.
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
