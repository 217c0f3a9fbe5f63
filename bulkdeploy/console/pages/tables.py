"""Table pages with paging. All filters and the sort order are in the URL."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from flask import Response
from markupsafe import Markup

from bulkdeploy.console.calls import Row
from bulkdeploy.console.table_declarations import TABLES, Column, Filter, Table, bulk_command
from bulkdeploy.console.visit import Visit

SIZES = (50, 100, 200, 500)
LARGEST_PAGE = SIZES[-1]
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How texts begin that a spreadsheet would compute."""
LETTERS: Mapping[str, int] = MappingProxyType(
    {"moment": 14, "number": 8, "mebibytes": 10, "size": 10, "flag": 6, "progress": 16, "long": 28}
)
"""How many letters wide columns of these kinds are; all others are as wide as their longest value."""
MOST_LETTERS, SHORT = 28, 8
RIGHT = ("number", "mebibytes", "size")


def show(table: Table, visit: Visit, *, creates: Sequence[str] = ()) -> Response:
    """Return one page of a table, with links to the forms of the commands that create such objects."""
    given = visit.given
    size, number = _size(given), page_number(given)
    answered, count = visit.calls.page(
        table.command, {**_list_parameters(table, visit), "page": number, "pagesize": size}
    )
    rows = list(map(table.read, answered))
    columns = _columns(table, rows, visit)
    looks = {column.name: Markup(_css_classes(column, rows, visit)) for column in columns}  # noqa: S704 - a class
    return visit.page(
        "table.html",
        table=table,
        columns=columns,
        looks=looks,
        rows=rows,
        lines=_lines(columns, looks, rows),
        count=count,
        number=number,
        size=size,
        sizes=SIZES,
        sort=given.get("sort", ""),
        options={
            one.name: visit.calls.rows(one.rows_of) for one in table.filters if one.rows_of and _may(one, visit)
        },
        actions=[action for action in table.actions if bulk_command(action) in visit.may],
        narrowed=[one for one in table.filters if given.get(one.name)],
        creates=creates,
    )


def as_csv(table: Table, visit: Visit) -> Response:
    """Return all rows and all columns of a table as CSV."""
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
    rows = visit.calls.every_row(table.command, _list_parameters(table, visit), page_size=LARGEST_PAGE)
    return map(table.read, rows)


def _cell(value: object) -> str:
    """Return a value as a CSV cell that a spreadsheet displays and does not evaluate as a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def _list_parameters(table: Table, visit: Visit) -> dict[str, Any]:
    """Return the parameters that filter and sort the list. Sorting by an unsortable column is ignored."""
    given = visit.given
    sort = given.get("sort", "")
    order = table.orders.get(sort.removeprefix("-"), "")
    filters: dict[str, Any] = {one.name: given[one.name] for one in table.filters if given.get(one.name)}
    if "resourceid" in filters and table.command == "listAsyncJobs":
        filters["resourcetype"] = "VirtualMachine"
    elif "resourceid" in filters:
        filters["resourcetype"] = given.get("resourcetype", "VirtualMachine")
    return {**table.fixed, "sortby": f"-{order}" if order and sort.startswith("-") else order, **filters}


def _may(one: Filter, visit: Visit) -> bool:
    return one.rows_of in visit.may


def _columns(table: Table, rows: Sequence[Row], visit: Visit) -> Sequence[Column]:
    """Return the columns that the URL names, or else the default columns that have a value in some row."""
    chosen = set(visit.request.args.getlist("column"))
    if chosen:
        return [one for one in table.columns if one.name in chosen]
    usual = [one for one in table.columns if one.shown]
    filled = [one for one in usual if any(row.get(one.name) not in (None, "") for row in rows)]
    return [one for one in usual if one in filled or one.kind == "progress"] if filled else usual


def _lines(
    columns: Sequence[Column], css_classes: Mapping[str, str], rows: Sequence[Row]
) -> list[tuple[Row, list[Any]]]:
    """Return each row with its cells: pairs of the properties of a column and a value.

    The template of 500 rows needs half of the CPU time if it does not look up the properties for each cell.
    """
    properties = [(one.kind, one.name, css_classes[one.name], one.to, one.by) for one in columns]
    names = [one.name for one in columns]
    return [(row, list(zip(properties, map(row.get, names), strict=True))) for row in rows]


def _css_classes(column: Column, rows: Sequence[Row], visit: Visit) -> str:
    """Return the CSS classes of a column's cells, which set the width in letters and the alignment.

    The width is set because the browser lays out each row separately.
    """
    texts = visit.pages.texts
    widest = len(texts.columns.get(column.name)) + 2
    if column.kind in LETTERS:
        widest = max(widest, LETTERS[column.kind])
    else:
        values = {str(row.get(column.name) or "")[: SHORT if column.name == "id" else None] for row in rows}
        if column.kind == "state":
            values = {texts.states.get(value) for value in values if value}
        bold = 2 if column.kind == "link" else 0
        widest = max(widest, *(len(value) + 2 + bold for value in values), 0)
    return f"letters-{min(widest + widest % 2, MOST_LETTERS)}{' number' if column.kind in RIGHT else ''}"


def _size(given: Mapping[str, str]) -> int:
    size = given.get("size", "")
    return int(size) if size in map(str, SIZES) else SIZES[0]


def page_number(given: Mapping[str, str]) -> int:
    """Return the page number in the URL, or 1 if the URL has no valid number."""
    number = given.get("page", "")
    return max(1, int(number)) if number.isascii() and number.isdigit() and len(number) < 8 else 1


VIEWS = MappingProxyType(
    {("GET", table.page): partial(show, table) for table in TABLES.values()}
    | {("GET", f"{table.page}.csv"): partial(as_csv, table) for table in TABLES.values()}
)
