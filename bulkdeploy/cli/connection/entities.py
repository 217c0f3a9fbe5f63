"""The possible values of a parameter, fetched from the server: ids with their names, or names.

The list command for a parameter is derived from the parameter's name, as in CloudMonkey, and otherwise from the
related commands that listApis names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bulkdeploy.cli.connection.catalogue import Api, ApiParameter, Catalogue

NAME_FIELDS = ("name", "displayname", "username", "displaytext", "ipaddress")
"""What a row goes by, most telling first."""

DESCRIBING_FIELDS = ("description", "cmd", "created")
"""What is shown beside the id of a row that has no name."""

ALWAYS = {
    "listtemplates": {"templatefilter": "executable"},
    "listisos": {"isofilter": "executable"},
    "listhosts": {"type": "Routing"},
}
"""Parameters without which a list is refused or holds what is not for deployments."""

IRREGULAR = {
    "job": "listAsyncJobs",
    "account": "listAccounts",
    "keypair": "listSSHKeyPairs",
    "hypervisor": "listHypervisors",
    "deploymentplanner": "listDeploymentPlanners",
    "storage": "listStoragePools",
    "ipaddress": "listPublicIpAddresses",
    "deployment": "listBulkDeployments",
    "vm": "listVirtualMachines",
    "pool": "listStoragePools",
}
BY_NAME = ("account", "keypair", "hypervisor", "deploymentplanner", "securitygroupname", "affinitygroupname")
"""Parameters whose values are names, in the singular."""

SCOPES = ("zoneid", "podid", "clusterid")
"""What narrows a list, where both the call and the list have it."""

PAGE = 500


class Caller(Protocol):
    """A function that calls commands of the API."""

    def __call__(self, command: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Call a command, and return the object inside the response."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """The list command that returns the values of a parameter.

    If ``by_name`` is true, the values are names, not ids.
    """

    api: Api
    by_name: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entity:
    """A row of a list, with its id and the names by which users can refer to it."""

    id: str
    names: tuple[str, ...]
    row: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The text that is shown next to the entity's id: its name, or a field such as its description."""
        described = (str(self.row[name]) for name in DESCRIBING_FIELDS if self.row.get(name))
        return self.names[0] if self.names else next(described, "")


def source_of(
    catalogue: Catalogue, api: Api, parameter: ApiParameter, given: Mapping[str, str] | None = None
) -> Source | None:
    """Return the list command that returns the values of a parameter, or None if none is known."""
    stem = parameter.name.lower().rpartition(".")[2]
    singular = stem.removesuffix("s")
    by_name = singular in BY_NAME
    if not by_name and not parameter.names_entities:
        return None
    if by_name:
        stem = singular.removesuffix("name")
    elif stem in ("id", "ids"):
        stem = api.noun
    else:
        stem = stem.removesuffix("s").removesuffix("id")
    listing = _listing(catalogue, stem, parameter.related)
    return None if listing is None else Source(listing, by_name, _scope(listing, given or {}))


def fetch(source: Source, call: Caller, search: Mapping[str, str] | None = None) -> list[Entity]:
    """Return up to ``PAGE`` rows of the list, filtered by ``search`` as far as the list has such parameters."""
    requested = {**source.parameters, **{k: v for k, v in (search or {}).items() if source.api.parameter(k)}}
    return list(_entities(call(source.api.name, requested), source.api.noun))


def _listing(catalogue: Catalogue, stem: str, related: Sequence[str]) -> Api | None:
    names = [IRREGULAR[stem]] if stem in IRREGULAR else []
    names += [f"list{stem}", f"list{stem}s", f"list{stem}es"]
    if stem.endswith("y"):
        names.append(f"list{stem[:-1]}ies")
    names += [name for name in related if name.startswith("list")]
    found = (catalogue.get(name) for name in names)
    return next((api for api in found if api is not None), None)


def _scope(listing: Api, given: Mapping[str, str]) -> dict[str, str]:
    parameters = dict(ALWAYS.get(listing.name.lower(), {}))
    if listing.parameter("listall"):
        parameters["listall"] = "true"
    if listing.parameter("page") and listing.parameter("pagesize"):
        parameters |= {"page": "1", "pagesize": str(PAGE)}
    scopes = {name: given[name] for name in SCOPES if name in given and listing.parameter(name)}
    return parameters | scopes


def rows_of(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the objects of a response's list. Returns an empty list unless the response has exactly one list."""
    lists = [value for value in answer.values() if isinstance(value, list)]
    if len(lists) != 1:
        return []
    return [row for row in lists[0] if isinstance(row, Mapping)]


def _entities(answer: Mapping[str, Any], noun: str) -> Iterable[Entity]:
    key = "jobid" if noun == "asyncjobs" else "id"
    for row in rows_of(answer):
        names = tuple(dict.fromkeys(str(row[name]) for name in NAME_FIELDS if row.get(name)))
        identity = str(row.get(key) or row.get("id") or "")
        if identity or names:
            yield Entity(identity, names, row)
