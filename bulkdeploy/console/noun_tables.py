"""The tables of nouns, generated from the listApis description of their list commands."""

from collections.abc import Iterator
from functools import lru_cache

from bulkdeploy.cli.connection.catalogue import Api, ApiParameter
from bulkdeploy.console.calls import Row
from bulkdeploy.console.nouns import PAGE_OF_ID, Noun
from bulkdeploy.console.table_declarations import Column, Filter, Table

STATES = ("state", "resourcestate", "allocationstate", "status", "vmstate", "powerstate", "hastate")
NOT_SET_UP = "Disabled"
"""The state of the power and of the HA of hosts that have neither."""
LONG_TEXTS = ("description", "displaytext", "userdata")
FEW = ("listZones", "listPods", "listClusters")
"""Commands whose rows a filter offers; of other things there may be too many to choose from."""
NUMBERS = ("integer", "long", "float")
FLAGS = ("true", "false")
NESTED = ("list", "set", "map", "responseobject")
NO_FILTERS = frozenset({"page", "pagesize", "keyword", "sortby", "details", "listall", "isrecursive"})
ID_FIELDS = {"vmname": "virtualmachineid", "storage": "storageid", "domain": "domainid", "project": "projectid"}
"""Fields with names of things whose ids stand in fields of another stem."""
MOST_KEPT = 500


def kind_of(name: str, type_: str, description: str) -> str:
    """Return the display format of a field, as in ``Column.kind``.

    It depends on the field's declaration in listApis.
    """
    if type_ == "date":
        return "moment"
    if type_ == "boolean":
        return "flag"
    if name.rpartition(".")[2] in STATES:
        return "state"
    if name in LONG_TEXTS:
        return "long"
    if type_ in NUMBERS:
        return "size" if "bytes" in description else "mebibytes" if "MiB" in description else "number"
    return "text"


def target_of(name: str, names: frozenset[str]) -> tuple[str, str]:
    """Return the page to which a field links, and the field with the id of the linked object.

    Both texts are empty if the field is not a link.
    """
    id_field = ID_FIELDS.get(name) or (f"{name.removesuffix('name')}id" if name.endswith("name") else "")
    return (PAGE_OF_ID[id_field], id_field) if id_field in names and id_field in PAGE_OF_ID else ("", "")


@lru_cache(MOST_KEPT)
def table_of(noun: Noun, api: Api) -> Table:
    """Return the table of a noun's list page, with the fields and filters that this person's listApis has."""
    orders = next((one.choices for one in api.parameters if one.name == "sortby"), ())
    return Table(
        noun.page,
        noun.lists,
        tuple(_columns(noun, api)),
        tuple(_filters(noun, api)),
        {word: word for word in orders if not word.startswith("-")},
        read=flat,
        fixed=noun.given,
    )


def flat(row: Row) -> Row:
    """Return a row with the fields of nested objects added as ``object.field``.

    The state of a nested object that is not set up is left out, so that the row is not shown as a problem.
    """
    inner = {
        f"{name}.{key}": value
        for name, held in row.items()
        if isinstance(held, dict)
        for key, value in held.items()
        if not (key in STATES and value == NOT_SET_UP)
    }
    return {**row, **inner}


def _columns(noun: Noun, api: Api) -> Iterator[Column]:
    """Yield the columns of a noun's table: first the columns that are shown by default, then the others."""
    fields = {name: (type_, text) for name, type_, text in api.fields if type_ not in NESTED}
    objects = {name for name, type_, _ in api.fields if type_ == "responseobject"}
    fields |= {name: ("string", "") for name in noun.shown if name.partition(".")[0] in objects and "." in name}
    names = frozenset(fields)
    shown = [name for name in noun.shown if name in fields]
    for name in (*shown, *(name for name in fields if name not in shown)):
        if name == shown[0] and noun.one:
            yield Column(name, "link", to=noun.one, by=noun.key)
            continue
        to, by = target_of(name, names)
        yield Column(name, "link" if to else kind_of(name, *fields[name]), name in shown, to, by or "id")


def _filters(noun: Noun, api: Api) -> Iterator[Filter]:
    parameters = {one.name: one for one in api.parameters}
    yield Filter("keyword")
    yield from (_filter(noun, parameters[name]) for name in noun.filters if name in parameters)
    yield from (Filter(name, hidden=True) for name in parameters.keys() - NO_FILTERS - {*noun.filters})


def _filter(noun: Noun, one: ApiParameter) -> Filter:
    words = one.choices or noun.words.get(one.name) or (FLAGS if one.type == "boolean" else ())
    return Filter(one.name, rows_of=next((name for name in one.related if name in FEW), ""), words=words)
