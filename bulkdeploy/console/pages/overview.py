"""The start page and the search: running and failed VMs, problems, and objects by name or id."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

from flask import Response

from bulkdeploy.console.calls import ApiRefused
from bulkdeploy.console.nouns import ALL_PROJECTS, NOUNS, Noun
from bulkdeploy.console.pages.health import alarms_of, hosts_in_trouble
from bulkdeploy.console.rendering import address
from bulkdeploy.console.visit import Visit

FEW_DETAILS = "min"
RECENT = 5
LOOKED_AT = 50
"""Bulk operations among which the page looks for others than deployments, which have a table of their own."""
DEPLOYING = ("bulkDeployVirtualMachine", "bulkCreateVirtualMachines")
VM_STATES = ("Running", "Stopped", "Error", "Unknown")
CAPACITIES = ("MEMORY", "CPU", "STORAGE_ALLOCATED")
MOST_WANTED = ("virtual-machines", "hosts", "volumes", "networks", "templates", "accounts", "projects", "clusters")
"""Kinds of objects that the search lists first."""
SEARCHED = tuple(
    sorted(
        (noun for noun in NOUNS if noun.one and noun.page not in ("alerts", "settings")),
        key=lambda noun: noun.page not in MOST_WANTED,
    )
)
KINDS_AT_ONCE = 10
"""Each kind costs one call. The page has the first kinds, and the browser then requests the others."""


def overview(visit: Visit) -> Response:
    """Return the start page of the console."""
    return visit.page("overview.html", **_values(visit))


def overview_live(visit: Visit) -> Response:
    """Return the part of the start page that is refreshed periodically."""
    return visit.page("fragments/overview.html", **_values(visit))


def search(visit: Visit) -> Response:
    """Return the page with the objects whose name, id or address contains a text, grouped by kind."""
    return visit.page("search.html", **_matches(visit))


def search_part(visit: Visit) -> Response:
    """Return the fragment with the matches in the next kinds of objects."""
    return visit.page("fragments/search.html", **_matches(visit))


def _matches(visit: Visit) -> dict[str, Any]:
    """Return the matches in some kinds of objects, and the first of the kinds that follow.

    ``from`` in the address is the number of kinds that were searched before, and ``found`` tells that these have
    matches.
    """
    text = visit.given.get("q", "").strip()[:200]
    begin = visit.given.get("from", "")
    first = int(begin) if begin.isascii() and begin.isdigit() and len(begin) < 4 else 0
    following = first + KINDS_AT_ONCE
    found = list(_found(visit, text, SEARCHED[first:following])) if text else []
    return {
        "q": text,
        "found": found,
        "found_before": "found" in visit.given,
        "following": following if text and following < len(SEARCHED) else None,
    }


def _values(visit: Visit) -> dict[str, Any]:
    may = visit.may
    health = visit.calls("getHealth")["health"] if "getHealth" in may else {}
    if health:
        vms = {row["state"]: int(row["count"]) for row in health["virtualmachines"]}
        jobs = {row["state"]: row for row in health["jobs"]}
    else:
        vms = {state: _count(visit, "listVirtualMachines", {**ALL_PROJECTS, "state": state}) for state in VM_STATES}
        jobs = {}
    zones = visit.calls.rows("listZones", {"showcapacities": "listCapacity" in may})
    return {
        "vms": {state: count for state, count in vms.items() if count or state == "Running"},
        "health": health,
        "alarms": alarms_of(health, jobs, vms) if health else [],
        "hosts": hosts_in_trouble(health, {}),
        "zones": [
            (zone, {one["name"]: one for one in zone.get("capacity") or () if one["name"] in CAPACITIES})
            for zone in zones
        ],
        "capacities": CAPACITIES,
        "deployments": _recent(visit, "listBulkDeployments"),
        "operations": [
            row for row in _recent(visit, "listBulkOperations", LOOKED_AT) if row["operation"] not in DEPLOYING
        ][:RECENT],
        "alerts": _recent(visit, "listAlerts"),
    }


def _recent(visit: Visit, command: str, most: int = RECENT) -> list[dict[str, Any]]:
    if command not in visit.may:
        return []
    return visit.calls.rows(command, {"listall": True, "page": 1, "pagesize": most})


def _count(visit: Visit, command: str, wanted: Mapping[str, object]) -> int:
    return visit.calls.page(command, {**wanted, "page": 1, "pagesize": 1})[1]


def _found(
    visit: Visit, text: str, kinds: Sequence[Noun]
) -> Iterator[tuple[Noun, int, list[tuple[str, str, dict[str, Any]]]]]:
    """Yield each kind of object with matches, the number of matches, and the first matches."""
    for noun in kinds:
        wanted = _search_filter(noun, text)
        if noun.lists not in visit.may or wanted is None:
            continue
        try:
            rows, count = visit.calls.page(
                noun.lists, {**noun.given, **_few_details(noun, visit), **wanted, "page": 1, "pagesize": RECENT}
            )
        except ApiRefused:  # no object of this type has the id
            continue
        if rows:
            label = noun.shown[0]
            shown = [(str(row.get(label) or row["id"]), address(noun.one, id=row["id"]), row) for row in rows]
            yield noun, count, shown


def _few_details(noun: Noun, visit: Visit) -> dict[str, object]:
    """Return the parameter that makes a list leave out expensive counts, or an empty dict if the list has none."""
    details = visit.may[noun.lists].parameter("details")
    return {"details": FEW_DETAILS} if details is not None and FEW_DETAILS in details.choices else {}


def _search_filter(noun: Noun, text: str) -> dict[str, object] | None:
    """Return the filter that finds objects of a noun by a text.

    Returns None if the text is no id and the objects of the noun have no other searchable field.
    """
    try:
        return {noun.by: str(UUID(text))}
    except ValueError:
        return None if noun.shown[0] == "id" else {"keyword": text}


VIEWS = MappingProxyType(
    {
        ("GET", "overview"): overview,
        ("GET", "overview-live"): overview_live,
        ("GET", "search"): search,
        ("GET", "search-part"): search_part,
    }
)
