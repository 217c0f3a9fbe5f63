"""The replacement of names by ids: ``zone=Demo`` becomes ``zoneid=<uuid>`` if exactly one zone has the name."""

import re
from collections.abc import Callable, Mapping

from bulkdeploy.cli.connection.catalogue import Api, ApiParameter, Catalogue
from bulkdeploy.cli.connection.entities import SCOPES, Caller, Entity, Source, fetch, source_of
from bulkdeploy.cli.failures import UsageError

ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|-?[0-9]+")
"""Values that are taken for ids: uuids, and numbers (internal ids of old servers, and -1)."""


def resolve_names(
    catalogue: Catalogue, api: Api, parameters: dict[str, str], call: Caller, print_message: Callable[[str], None]
) -> None:
    """Replace names by ids in ``parameters``. Each replacement is reported to ``print_message``.

    Zones, pods and clusters are resolved first, because they restrict the objects to which other names can refer.

    Raises:
        UsageError: no object or several objects have a name.
    """
    first = [name for name in ("domainid", *SCOPES) if name in parameters]
    for name in (*first, *(name for name in parameters if name not in first)):
        parameter = api.value(name)
        if parameter is None or not parameter.names_entities:
            continue
        values = parameters[name].split(",") if parameter.type == "list" else [parameters[name]]
        if all(ID.fullmatch(value) for value in values if value):
            continue
        source = source_of(catalogue, api, parameter, parameters)
        if source is None or source.by_name:
            continue
        parameters[name] = ",".join(_resolved(parameter, value, source, call, print_message) for value in values)


def _resolved(
    parameter: ApiParameter, value: str, source: Source, call: Caller, print_message: Callable[[str], None]
) -> str:
    if not value or ID.fullmatch(value):
        return value
    found = _matches(value, source, call)
    if len(found) == 1:
        print_message(f"{parameter.name}={found[0].id} is {value}")
        return found[0].id
    if not found:
        raise UsageError(f"{parameter.name}: there is no object called {value!r} in {source.api.name}")
    candidates = ", ".join(f"{entity.id} ({_place(entity.row) or entity.label})" for entity in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    raise UsageError(
        f"{parameter.name}: {value!r} is the name of {len(found)} objects: {candidates}{more}", hint="Use the id"
    )


def _matches(value: str, source: Source, call: Caller) -> list[Entity]:
    """Return the entities with this name. If none has exactly this name, case is ignored."""
    searches: list[dict[str, str]] = [{}]
    if source.api.parameter("keyword"):
        searches.insert(0, {"keyword": value})
    if source.api.parameter("name"):
        searches.insert(0, {"name": value})
    for search in searches:
        entities = {entity.id: entity for entity in fetch(source, call, search) if entity.id}.values()
        exact = [entity for entity in entities if value in entity.names]
        alike = [entity for entity in entities if value.lower() in map(str.lower, entity.names)]
        # An id of an object is an id even if it does not have the form of a uuid.
        if value in {entity.id for entity in entities}:
            return [entity for entity in entities if entity.id == value]
        if exact or alike:
            return exact or alike
    return []


def _place(row: Mapping[str, object]) -> str:
    """Return a text that distinguishes rows of the same name."""
    parts = (row.get(name) for name in ("zonename", "podname", "clustername", "account", "state"))
    return ", ".join(str(part) for part in parts if part)
