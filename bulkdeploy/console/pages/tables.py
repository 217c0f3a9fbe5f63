"""Tables of what there is: one page of it at a time, everything that narrows or orders it in the address."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from flask import Response

from bulkdeploy.console.calls import Row
from bulkdeploy.console.table_declarations import TABLES, Column, Filter, Table
from bulkdeploy.console.visit import Visit

SIZES = (50, 100, 200, 500)
LARGEST_PAGE = SIZES[-1]
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How texts begin that a spreadsheet would compute."""


def show(table: Table, visit: Visit) -> Response:
    """One page of a table."""
    given = visit.given
    filters, size, number = _filters(table, visit), _size(given), _page_number(given)
    sort = given.get("sort", "")
    column = next((one for one in table.columns if one.name == sort.removeprefix("-")), None)
    rows, count = visit.calls.page(table.command, {**filters, "page": number, "pagesize": size})
    whole = column is not None and count <= LARGEST_PAGE
    if column is not None:
        if whole and count > len(rows):
            rows, count = visit.calls.page(table.command, {**filters, "page": 1, "pagesize": LARGEST_PAGE})
            shown = _sorted(list(map(table.read, rows)), column.name, sort)[(number - 1) * size : number * size]
        else:
            shown = _sorted(list(map(table.read, rows)), column.name, sort)
    else:
        shown = list(map(table.read, rows))
    return visit.page(
        "table.html",
        table=table,
        columns=_columns(table, visit),
        rows=shown,
        count=count,
        number=number,
        size=size,
        sizes=SIZES,
        sort=sort,
        sorted_in_part=column is not None and not whole,
        options={
            one.name: visit.calls.rows(one.rows_of) for one in table.filters if one.rows_of and _may(one, visit)
        },
        actions=[action for action in table.actions if action in visit.may],
        narrowed=[one for one in table.filters if given.get(one.name)],
    )


def as_csv(table: Table, visit: Visit) -> Response:
    """All rows of a table, every column, as they are."""
    names = [column.name for column in table.columns if column.kind != "progress"]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(names)
    for row in _every_row(table, visit):
        writer.writerow([_cell(row.get(name)) for name in names])
    answer = Response(text.getvalue(), content_type="text/csv; charset=UTF-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{table.page}.csv"'
    return answer


def _every_row(table: Table, visit: Visit) -> Iterator[Row]:
    rows = visit.calls.every_row(table.command, _filters(table, visit), page_size=LARGEST_PAGE)
    return map(table.read, rows)


def _cell(value: object) -> str:
    """A value as a spreadsheet shows and does not compute it."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def _filters(table: Table, visit: Visit) -> dict[str, Any]:
    given = visit.given
    filters: dict[str, Any] = {one.name: given[one.name] for one in table.filters if given.get(one.name)}
    if "resourceid" in filters and table.command == "listAsyncJobs":
        filters["resourcetype"] = "VirtualMachine"
    elif "resourceid" in filters:
        filters["resourcetype"] = given.get("resourcetype", "VirtualMachine")
    return {"listall": True, **filters}


def _may(one: Filter, visit: Visit) -> bool:
    return one.rows_of in visit.may


def _columns(table: Table, visit: Visit) -> Sequence[Column]:
    chosen = set(visit.request.args.getlist("column"))
    return [one for one in table.columns if (one.name in chosen if chosen else one.shown)]


def _size(given: Mapping[str, str]) -> int:
    size = given.get("size", "")
    return int(size) if size in map(str, SIZES) else SIZES[0]


def _page_number(given: Mapping[str, str]) -> int:
    number = given.get("page", "")
    return max(1, int(number)) if number.isascii() and number.isdigit() and len(number) < 8 else 1


def _sorted(rows: list[Row], name: str, sort: str) -> list[Row]:
    """Rows by one column: numbers by size, texts by their letters, nothing last."""
    with_value = [row for row in rows if row.get(name) not in (None, "")]
    numeric = all(isinstance(row[name], int | float) for row in with_value)
    with_value.sort(
        key=lambda row: row[name] if numeric else str(row[name]).casefold(), reverse=sort.startswith("-")
    )
    return with_value + [row for row in rows if row.get(name) in (None, "")]


VIEWS = MappingProxyType(
    {("GET", table.page): partial(show, table) for table in TABLES.values()}
    | {("GET", f"{table.page}.csv"): partial(as_csv, table) for table in TABLES.values()}
)
