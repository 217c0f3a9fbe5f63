"""The map of a zone: a cell for each host, by pod and cluster."""

import hashlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import orjson
from flask import Response

from bulkdeploy.console.calls import Row
from bulkdeploy.console.nouns import BY_PAGE
from bulkdeploy.console.visit import Visit

COMMAND = "getZoneMap"
SHARES = ("memoryallocated", "cpuallocated", "memoryused", "cpuused")
MOST_OWNERS, MOST_DEPLOYMENTS = 200, 50


def topology(visit: Visit) -> Response:
    """Return the page with the map of a zone. Its script draws the data of ``zone_map``."""
    if COMMAND not in visit.may:
        visit.calls(COMMAND)  # the API's error explains why
    zones = visit.calls.rows("listZones")
    zone = next((row for row in zones if row["id"] == visit.given.get("zoneid")), zones[0] if zones else {})
    return visit.page(
        "topology.html",
        zones=zones,
        zone=zone,
        by=_share(visit),
        shares=SHARES,
        vms=visit.given.get("vms", ""),
        groups=dict(_highlights(visit)),
    )


def zone_map(visit: Visit) -> Response:
    """Return the response of getZoneMap for the page's script, or status 304 if the browser has the same data."""
    counted = parameters_of(visit.given.get("vms", ""))
    found = visit.calls(COMMAND, {"zoneid": visit.given.get("zoneid", ""), "by": _share(visit), **counted})
    body = orjson.dumps(found["zonemap"])
    answer = Response(body, content_type="application/json")
    answer.set_etag(hashlib.sha256(body).hexdigest()[:32])
    answer.make_conditional(visit.request)
    return answer


def parameters_of(vms: str) -> dict[str, str]:
    """Return the parameters that select the VMs to highlight.

    ``vms`` is a text such as ``project:ID``, ``deployment:ID`` or ``account:DOMAIN:NAME``.
    """
    kind, _, rest = vms.partition(":")
    if kind == "account":
        domain, _, name = rest.partition(":")
        return {"account": name, "domainid": domain}
    return {f"{kind}id": rest} if kind in ("project", "deployment") else {}


def _share(visit: Visit) -> str:
    by = visit.given.get("by", "")
    return by if by in SHARES else SHARES[0]


def _highlights(visit: Visit) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the objects whose VMs can be highlighted on the map, as options grouped by page."""
    for page, most in (("deployments", MOST_DEPLOYMENTS), ("accounts", MOST_OWNERS), ("projects", MOST_OWNERS)):
        noun = BY_PAGE[page]
        if noun.lists in visit.may:
            rows = visit.calls.rows(noun.lists, {**noun.given, "listall": True, "page": 1, "pagesize": most})
            yield page, [_highlight(page, row) for row in rows]


def _highlight(page: str, row: Row) -> tuple[str, str]:
    if page == "accounts":
        return (
            f"account:{row['domainid']}:{row['name']}",
            f"{row['name']} · {row.get('domainpath') or row['domain']}",
        )
    if page == "projects":
        return f"project:{row['id']}", str(row["name"])
    owner = row.get("project") or row.get("account", "")
    return f"deployment:{row['id']}", f"{row['id'][:8]} · {owner} · {row['count']}"


VIEWS: Any = MappingProxyType({("GET", "topology"): topology, ("GET", "zone-map"): zone_map})
