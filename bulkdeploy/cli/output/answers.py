"""The rows of an API response, for filters, tables and other output in columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rows:
    """A response as rows. ``columns`` are in display order. ``single`` is true if the response is one object."""

    rows: tuple[Mapping[str, Any], ...]
    columns: tuple[str, ...]
    single: bool


def filtered(answer: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Return the response with only these fields in its objects, in this order. Field names are case-insensitive.

    ``count`` and the keys around the objects are kept. If the response is itself the object, its fields are
    selected directly.
    """
    if not fields:
        return dict(answer)
    nested = {name: value for name, value in answer.items() if _holds_objects(value)}
    if not nested:
        return _picked(answer, fields)
    kept = {"count": answer["count"]} if "count" in answer else {}
    return kept | {
        name: _picked(value, fields) if isinstance(value, Mapping) else [_picked(row, fields) for row in value]
        for name, value in nested.items()
    }


def as_rows(answer: Mapping[str, Any], fields: Sequence[str] = ()) -> Rows:
    """Return the objects of a response as rows. The columns are ``fields``, or else all fields, sorted by name."""
    rows, single = _objects(answer)
    columns = tuple(fields) or tuple(sorted({name for row in rows for name in row}))
    if fields:
        rows = [_picked(row, fields) for row in rows]
    return Rows(tuple(rows), columns, single)


def _objects(answer: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], bool]:
    lists = [value for value in answer.values() if isinstance(value, list)]
    others = [value for name, value in answer.items() if name != "count" and not isinstance(value, list)]
    if len(lists) == 1 and not others:
        return [row if isinstance(row, Mapping) else {"value": row} for row in lists[0]], False
    if not lists and len(others) == 1 and isinstance(others[0], Mapping):
        return [others[0]], True
    if not lists and not others:
        return [], False
    return [answer], True


def _holds_objects(value: object) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and any(isinstance(row, Mapping) for row in value)


def _picked(row: Any, fields: Iterable[str]) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        return {}
    known = {str(name).lower(): name for name in row}
    return {field: row[known[field.lower()]] for field in fields if field.lower() in known}
