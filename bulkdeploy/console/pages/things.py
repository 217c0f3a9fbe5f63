"""Pages of nouns: the list, one object with all its fields, and the forms of its commands."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from flask import Response

from bulkdeploy.console.calls import ApiRefused, Row
from bulkdeploy.console.command_forms import call_of_form, fields_of_form, is_dangerous, wrong_field
from bulkdeploy.console.noun_tables import kind_of, table_of, target_of
from bulkdeploy.console.nouns import BY_PAGE, NOUNS, Noun
from bulkdeploy.console.pages import tables
from bulkdeploy.console.rendering import address
from bulkdeploy.console.table_declarations import Table
from bulkdeploy.console.visit import Visit

NOT_FOUND = 404
OWN_PAGES = ("virtual-machine", "deployment", "host", "cluster")
"""Pages of single things that are written by hand."""


def show_list(noun: Noun, visit: Visit) -> Response:
    """Return one page of a noun's list."""
    creates = [command for command in noun.creates if command in visit.may]
    return tables.show(_table(noun, visit), visit, creates=creates)


def show_one(noun: Noun, visit: Visit) -> Response:
    """Return the page of one object: its fields, its parts, its commands and the objects that belong to it."""
    return visit.page("thing.html", **_values(noun, visit))


def show_live(visit: Visit) -> Response:
    """Return the part of an object's page that is refreshed while a job works on the object."""
    noun = BY_PAGE.get(visit.given.get("of", ""))
    if noun is None or not noun.one:
        raise ApiRefused(NOT_FOUND, visit.pages.texts.things.gone)
    return visit.page("fragments/thing.html", **_values(noun, visit))


def _values(noun: Noun, visit: Visit) -> dict[str, Any]:
    key = visit.given.get("id") or "-"
    row = find_row(noun, key, visit)
    fields = [one for one in visit.may[noun.lists].fields if row.get(one[0]) not in (None, "", [], {})]
    names = frozenset(row)
    targets = {name: target_of(name, names) for name, _, _ in fields}
    linked = {by for _, by in targets.values()}
    return {
        "noun": noun,
        "key": key,
        "row": row,
        "title": str(row.get(noun.shown[0]) or key),
        "facts": [
            (name, text, kind_of(name, type_, text), *targets[name])
            for name, type_, text in fields
            if not isinstance(row[name], (list, dict)) and name not in linked
        ],
        "lists": [(name, text, _columns(row[name])) for name, _, text in fields if isinstance(row[name], list)],
        "maps": [(name, text) for name, _, text in fields if isinstance(row[name], dict)],
        "actions": actions_of(noun, visit),
        "related": [
            (page, address(page, {parameter: key}))
            for page, parameter in noun.related
            if page not in BY_PAGE or BY_PAGE[page].lists in visit.may
        ],
    }


def actions_of(noun: Noun, visit: Visit) -> list[tuple[str, bool]]:
    """Return the commands on one object that the user may call, each with whether the command is dangerous."""
    return [(command, is_dangerous(command)) for command in noun.actions if command in visit.may]


def show_form(visit: Visit) -> Response:
    """Return the page with the form of a command."""
    noun, command, row = _form_subject(visit)
    return _form(noun, command, row, visit)


def act(visit: Visit) -> Response:
    """Make the call of a form, and redirect to the page of its result.

    If the API rejects the call, the form is shown with the error next to the field that the error names.
    """
    noun, command, row = _form_subject(visit)
    try:
        answer = visit.calls(command, call_of_form(visit.may[command], noun, row, visit.request.form))
    except ApiRefused as error:
        return _form(noun, command, row, visit, text=str(error))
    return Response(status=303, headers={"Location": _next_page(noun, command, row, answer)})


def find_row(noun: Noun, key: str, visit: Visit) -> dict[str, Any]:
    """Return the row of one object of a noun.

    Raises:
        ApiRefused: the object does not exist, or the user may not see it.
    """
    _check_may_list(noun, visit)
    rows = visit.calls.rows(noun.lists, {**noun.given, noun.by: key})
    for row in rows:
        if str(row.get(noun.key)) == key:
            return row
    raise ApiRefused(NOT_FOUND, visit.pages.texts.things.gone)


def _form_subject(visit: Visit) -> tuple[Noun, str, Row]:
    """Return the noun and the command of a form, and the row of its object, which is empty for a new object."""
    noun, command = BY_PAGE.get(visit.given.get("of", "")), visit.given.get("command", "")
    if noun is None or command not in (*noun.creates, *noun.actions) or command not in visit.may:
        raise ApiRefused(NOT_FOUND, visit.pages.texts.things.no_form)
    key = visit.given.get("id", "")
    return noun, command, find_row(noun, key, visit) if key else {}


def _form(noun: Noun, command: str, row: Row, visit: Visit, text: str = "") -> Response:
    fields = fields_of_form(visit.may[command], noun, row, visit)
    key = str(row.get(noun.key, ""))
    return visit.page(
        "act.html",
        422 if text else 200,
        noun=noun,
        command=command,
        about=visit.may[command].description,
        row=row,
        title=str(row.get(noun.shown[0]) or key),
        needed=[one for one in fields if one.required],
        others=[one for one in fields if not one.required],
        wrong=wrong_field(text, {one.name: one.name for one in fields}),
        text=text,
        dangerous=is_dangerous(command),
        action=address("act", of=noun.page, command=command, id=key),
        back=address(noun.one, id=key) if row and noun.one else noun.page,
    )


def _next_page(noun: Noun, command: str, row: Row, answer: Mapping[str, Any]) -> str:
    """Return the address of the page with the result of a call: of the job, the object or the list."""
    if answer.get("jobid"):
        return address("job", id=answer["jobid"])
    if row:
        return noun.page if command.startswith("delete") or not noun.one else address(noun.one, id=row[noun.key])
    made = next((value for value in answer.values() if isinstance(value, dict)), {})
    return address(noun.one, id=made["id"]) if noun.one and made.get("id") else noun.page


def _columns(rows: list[Any]) -> list[str]:
    """Return the columns for a list that is nested in an object: the fields that have values and are not nested."""
    objects = [row for row in rows if isinstance(row, dict)]
    names = dict.fromkeys(name for row in objects for name, value in row.items() if value not in (None, ""))
    return [name for name in names if not any(isinstance(row.get(name), (list, dict)) for row in objects)]


def _table(noun: Noun, visit: Visit) -> Table:
    """Return the noun's table with the columns and commands that the user may see.

    Raises:
        ApiRefused: the user may not list such objects.
    """
    _check_may_list(noun, visit)
    return table_of(noun, visit.may[noun.lists])


def _check_may_list(noun: Noun, visit: Visit) -> None:
    """Raise the API's error if the user may not list such objects."""
    if noun.lists not in visit.may:
        visit.calls(noun.lists)
        raise ApiRefused(NOT_FOUND, visit.pages.texts.errors.get("404"))


def _as_csv(noun: Noun, visit: Visit) -> Response:
    return tables.as_csv(_table(noun, visit), visit)


VIEWS = MappingProxyType(
    {("GET", noun.page): partial(show_list, noun) for noun in NOUNS}
    | {("GET", f"{noun.page}.csv"): partial(_as_csv, noun) for noun in NOUNS}
    | {("GET", noun.one): partial(show_one, noun) for noun in NOUNS if noun.one and noun.one not in OWN_PAGES}
    | {("GET", "thing-live"): show_live, ("GET", "act"): show_form, ("POST", "act"): act}
)
