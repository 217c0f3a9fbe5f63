"""The rendering of handlers' results as responses with only the declared fields (one file: one format).

The steps for rendering an object are prepared once per command and role, so that rendering many rows is fast.
Fields whose value is None are left out, as in CloudStack (cloudstack-protocol.md 1.3).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import orjson

from bulkdeploy.api.wire import Cookie, WireAnswer
from bulkdeploy.api.xml import to_xml
from bulkdeploy.declare.command import Command, Instead, JobTicket, SuccessText
from bulkdeploy.declare.discovery import WARNING
from bulkdeploy.declare.responses import Field, FieldType, Response, Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.store.rows.listing import ROWS_AT_ONCE, Page

JSON_TYPE = "application/json; charset=UTF-8"
XML_TYPE = "text/xml; charset=UTF-8"
SECURITY_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-XSS-Protection": "1; mode=block",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}

ETAG_BYTES = 16

REFUSED_ENVELOPE = "errorresponse"
"""The key of error responses that belong to no known command."""

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Any]
Content: TypeAlias = dict[str, Any]
Render: TypeAlias = Callable[[Row], Content]


class UndeclaredField(Exception):
    """A handler returned a field that its command does not declare."""


class Renderer:
    """The renderer of one command's responses for all roles, created once per command."""

    def __init__(self, command: Command, *, refuse_undeclared_fields: bool = False) -> None:
        self._shape = command.shape
        self._strict = refuse_undeclared_fields
        self._key = "" if command.response is None else command.response.key
        self._fields_by_role = _ByRole(partial(_visible_fields, _fields(command.response)))
        self._by_role = _ByRole(partial(plan, _fields(command.response), strict=refuse_undeclared_fields))
        self._instead_by_role = _ByRole(partial(plan, _fields(command.instead), strict=refuse_undeclared_fields))

    def content(
        self, result: Any, role: RoleType | None, *, json: bool = False, warning: str | None = None
    ) -> Content:
        """Return the content of the response envelope for a handler's result.

        Args:
            result: the handler's result.
            role: the caller's role; None without credentials.
            json: whether the response is JSON; lists are then returned as finished JSON texts.
            warning: a text that is added to the returned object, or to the first object of a list, because clients
                accept no other key beside the list.
        """
        reported: Content = {} if warning is None else {WARNING.name: warning}
        if isinstance(result, Instead):
            return {result.response.key: {**self._instead_by_role[role](result.row), **reported}}
        match self._shape:
            case Shape.LIST:
                return self._list(result, role, reported, json=json)
            case Shape.OBJECT:
                return {self._key: {**self._by_role[role](result), **reported}}
            case Shape.BARE:
                return {**self._by_role[role](result), **reported}
            case Shape.SUCCESS:
                text = {"displaytext": result.displaytext} if isinstance(result, SuccessText) else {}
                return {"success": True, **text, **reported}
            case Shape.JOB | Shape.JOB_SUCCESS:
                return {**_job(result), **reported}

    def _list(self, page: Page, role: RoleType | None, reported: Content, *, json: bool) -> Content:
        """Return the content of the envelope for a list.

        An empty list gives an empty object. A page after the last row gives the count without rows.
        """
        if page.count == 0:
            return {}
        if not page.rows:
            return {"count": page.count}
        if json and page.json is not None:
            texts = page.json(self._fields_by_role[role])
            return {"count": page.count, self._key: self._made(page, iter(texts), role, reported)}
        rows: Iterator[Content] = map(self._by_role[role], page.rows)
        if reported:
            rows = chain(({**row, **reported} for row in islice(rows, 1)), rows)
        return {"count": page.count, self._key: _json_array(rows) if json else list(rows)}

    def _made(self, page: Page, texts: Iterator[str], role: RoleType | None, reported: Content) -> orjson.Fragment:
        """Return rows that the database returned as JSON texts as one JSON array.

        In strict mode, the first row is checked for undeclared fields.
        """
        for row in islice(page.rows, 1) if self._strict else ():
            self._by_role[role](row)
        if reported:
            texts = chain((_with(text, reported) for text in islice(texts, 1)), texts)
        parts = []
        while part := list(islice(texts, ROWS_AT_ONCE)):
            parts.append(",".join(part).encode())
        return _array(parts)


def _with(text: str, more: Content) -> str:
    """Return the JSON object ``text`` with the additional fields ``more``, which ``text`` must not contain."""
    return text[:-1] + "," * (len(text) > len("{}")) + orjson.dumps(more)[1:].decode()


def _json_array(rows: Iterator[Content]) -> orjson.Fragment:
    """Return the rows as one JSON array.

    The rows are converted in parts, so that a long list is never in memory as Python objects all at once.
    """
    parts = []
    while part := list(islice(rows, ROWS_AT_ONCE)):
        parts.append(orjson.dumps(part)[1:-1])
    return _array(parts)


def _array(parts: Iterable[bytes]) -> orjson.Fragment:
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")


class _ByRole(dict[RoleType | None, T]):
    """Values by role, each created when it is first used. The role None is a caller without credentials."""

    def __init__(self, make: Callable[[RoleType | None], T]) -> None:
        self._make = make

    def __missing__(self, role: RoleType | None) -> T:
        """Create and return the value of a role. If two threads do so at once, both values are equivalent."""
        made = self[role] = self._make(role)
        return made


def _fields(response: Response | None) -> tuple[Field, ...]:
    return () if response is None else response.fields


def _visible_fields(fields: Iterable[Field], role: RoleType | None) -> tuple[Field, ...]:
    """Return the fields that a role may see, including those inside nested objects.

    Each returned field reads the column that this role may see.
    """
    return tuple(
        replace(field, column=_column(field, role), fields=_visible_fields(field.fields, role))
        if field.fields or field.public_column
        else field
        for field in fields
        if _sees(role, field)
    )


def _column(field: Field, role: RoleType | None) -> str:
    """Return the key under which a row has the value of a field for callers with this role."""
    public = "" if role is RoleType.ADMIN else field.public_column
    return public or field.column or field.name


def _sees(role: RoleType | None, field: Field) -> bool:
    return role in field.roles or (role is None and field.roles.issuperset(RoleType))


def plan(fields: Iterable[Field], role: RoleType | None, *, strict: bool = False) -> Render:
    """Return a function that renders one row with these fields for a role.

    If ``strict`` is set, the function raises UndeclaredField for rows with other fields.
    """
    declared = tuple(fields)
    names = frozenset(name for field in declared for name in (field.name, field.column, field.public_column))
    steps = [
        (field.name, _column(field, role), _converter(field, role, strict=strict), field.value)
        for field in declared
        if _sees(role, field)
    ]

    def render(row: Row) -> Content:
        return {
            name: convert(value)
            for name, column, convert, always in steps
            if (value := row.get(column, always)) is not None
        }

    def render_strictly(row: Row) -> Content:
        if not row.keys() <= names:
            raise UndeclaredField(", ".join(sorted(row.keys() - names)))
        return render(row)

    return render_strictly if strict else render


def answer(
    key: str, content: Content, *, json: bool, cookies: tuple[Cookie, ...] = (), tagged: bool = False
) -> WireAnswer:
    """Return a successful response.

    If ``tagged`` is set, the response has an entity tag, so that clients that poll need not read the same body
    twice.
    """
    content_type, body = _body(key, content, json=json)
    etag = blake2b(body, digest_size=ETAG_BYTES).hexdigest() if tagged else ""
    return WireAnswer(200, content_type, body, SECURITY_HEADERS, cookies, etag)


def refusal(
    key: str, content: Content, *, json: bool, headers: Mapping[str, str], cookies: tuple[Cookie, ...] = ()
) -> WireAnswer:
    """Return an error response.

    Its HTTP status is the content's ``errorcode``.

    Its header ``X-Description`` has the error text too.
    """
    all_headers = {**SECURITY_HEADERS, **headers, "X-Description": _header_text(content["errortext"])}
    return WireAnswer(content["errorcode"], *_body(key, content, json=json), all_headers, cookies)


def _body(key: str, content: Content, *, json: bool) -> tuple[str, bytes]:
    if json:
        return JSON_TYPE, orjson.dumps({key: content})
    return XML_TYPE, to_xml(key, content)


LONGEST_HEADER = 1000


def _header_text(text: str) -> str:
    """Return a text as a header value: at most LONGEST_HEADER characters, all printable ASCII.

    Other characters become question marks.
    """
    return "".join(character if " " <= character <= "~" else "?" for character in text[:LONGEST_HEADER])


def _job(ticket: JobTicket) -> Content:
    if ticket.entity_uuid is None:
        return {"jobid": ticket.job_uuid}
    return {"id": ticket.entity_uuid, "jobid": ticket.job_uuid}


def _converter(field: Field, role: RoleType | None, *, strict: bool) -> Callable[[Any], Any]:
    if field.fields:
        render = plan(field.fields, role, strict=strict)
        if field.type is FieldType.OBJECT or field.type is FieldType.MAP:
            return render
        return lambda rows: [render(row) for row in rows]
    return CONVERTERS[field.type]


def _text(value: Any) -> str | UUID:
    """Return a value as a JSON string.

    UUIDs are returned unchanged, because the JSON writer converts them faster.
    """
    if type(value) is str or type(value) is UUID:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return _date(value)
    return str(value.value if isinstance(value, Enum) else value)


@lru_cache(4096)
def _date(value: datetime | str) -> str:
    """Return a time in the form of CloudStack's responses.

    The result is cached, because thousands of objects that one call created have the same time.
    """
    if isinstance(value, str):
        return value
    return value.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "+0000"


def _truth(value: Any) -> bool:
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def _texts(values: Iterable[Any]) -> list[str | UUID]:
    return [_text(value) for value in values if value is not None]


def _text_map(value: Mapping[Any, Any]) -> dict[str, str | UUID]:
    return {str(key): _text(inner) for key, inner in value.items() if inner is not None}


def _as_it_is(value: Any) -> Any:
    return value


CONVERTERS: Mapping[FieldType, Callable[[Any], Any]] = {
    FieldType.STRING: _text,
    FieldType.INTEGER: int,
    FieldType.LONG: int,
    FieldType.FLOAT: float,
    FieldType.BOOLEAN: _truth,
    FieldType.DATE: _date,
    FieldType.LIST: _texts,
    FieldType.SET: _texts,
    FieldType.MAP: _text_map,
    FieldType.OBJECT: _as_it_is,
}
