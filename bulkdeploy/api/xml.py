"""XML responses, with the same structure as JSON responses, on one line (cloudstack-protocol.md 1.4)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

from bulkdeploy.domain.compatibility import CLOUDSTACK_VERSION

NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NOT_IN_NAMES = re.compile(r"[^\w.\-]", re.ASCII)
QUOTES = {'"': "&quot;", "'": "&apos;"}


def to_xml(key: str, content: Mapping[str, Any]) -> bytes:
    """Return the XML response with the envelope ``key`` around ``content``.

    For a list, the element of its field is repeated.
    """
    inner = "".join(_elements(content))
    envelope = f'<{key} cloud-stack-version="{CLOUDSTACK_VERSION}">{inner}</{key}>'
    return f'<?xml version="1.0" encoding="UTF-8"?>{envelope}'.encode()


def _elements(content: Mapping[str, Any]) -> Iterator[str]:
    for name, value in content.items():
        element = _element_name(name)
        for one in value if isinstance(value, list | tuple) else (value,):
            yield f"<{element}>{_inner(one)}</{element}>"


def _inner(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(_elements(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    return escape(NOT_IN_XML.sub("\ufffd", str(value)), QUOTES)


def _element_name(name: str) -> str:
    """Return a key as the name of an XML element.

    Keys of maps are chosen by users; characters that are not allowed in element names become ``_``.
    """
    cleaned = NOT_IN_NAMES.sub("_", name)
    return cleaned if cleaned[:1].isalpha() or cleaned[:1] == "_" else f"_{cleaned}"
