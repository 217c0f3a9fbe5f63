"""Error responses, as bytes, to requests that are rejected before they reach Flask."""

from collections.abc import Mapping
from http import HTTPStatus

from bulkdeploy.api.envelope import REFUSED_ENVELOPE, refusal
from bulkdeploy.api.errors import error_content
from bulkdeploy.api.wire import WireRequest, read_parameters
from bulkdeploy.domain.errors import BulkDeployError, RequestTooLarge


def refusal_of(error: BulkDeployError, url: bytes) -> bytes:
    """Return a complete HTTP response for an error.

    The response is JSON if ``url`` contains ``response=json``, otherwise XML. ``url`` may be incomplete.
    """
    content = error_content(error, None)
    requested = WireRequest(_parameters(url))
    reported = refusal(REFUSED_ENVELOPE, content, json=requested.wants_json, headers={})
    headers: Mapping[str, object] = {
        "Content-Type": reported.content_type,
        "Content-Length": len(reported.body),
        **reported.headers,
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {reported.status} {HTTPStatus(reported.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + reported.body


def _parameters(url: bytes) -> Mapping[str, str]:
    try:
        return read_parameters(url.partition(b"?")[2], b"")
    except RequestTooLarge:
        return {}
