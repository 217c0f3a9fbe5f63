"""The capacity pages: capacity and usage of zones, clusters and hosts, and the number of VMs that still fit."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from flask import Response

from bulkdeploy.console.calls import ApiRefused, Row
from bulkdeploy.console.formats import PER_CENT, share
from bulkdeploy.console.graphs import host_graphs
from bulkdeploy.console.nouns import BY_PAGE
from bulkdeploy.console.pages.health import hosts_in_trouble
from bulkdeploy.console.pages.tables import page_number
from bulkdeploy.console.pages.things import actions_of
from bulkdeploy.console.rendering import address
from bulkdeploy.console.spread import Spread, spread_of
from bulkdeploy.console.table_declarations import TABLES
from bulkdeploy.console.visit import Visit

NOT_FOUND = 404
HOST, CLUSTER = BY_PAGE["hosts"], BY_PAGE["clusters"]
PAGE = 500
CLUSTERS = 50
"""Clusters of one page."""
MOST_PAGES = 10
RESOURCES = ("MEMORY", "CPU", "STORAGE_ALLOCATED")
HEAT = (1, 25, 50, 70, 85, 95)
"""Where one shade ends and the next begins, in per cent."""
MAINTENANCE = ("Maintenance", "PrepareForMaintenance", "ErrorInMaintenance", "ErrorInPrepareForMaintenance")
"""States of hosts that maintenance has begun to empty."""
HOST_ACTIONS = {
    "prepareHostForMaintenance": ("Enabled",),
    "cancelHostMaintenance": MAINTENANCE,
}
MOST_VMS = 200
"""VMs that the page of a host names."""


def heat(per_cent: float) -> int:
    """Return the colour step for a percentage, from 0 for empty to 6 for full."""
    return sum(per_cent >= edge for edge in HEAT)


def capacity(visit: Visit) -> Response:
    """Return the page with the capacity and usage of a zone, and of its pods and clusters."""
    zones = visit.calls.rows("listZones", {"showcapacities": True})
    zone = next((row for row in zones if row["id"] == visit.given.get("zoneid")), zones[0] if zones else {})
    health = visit.calls("getHealth")["health"] if "getHealth" in visit.may else {}
    by = visit.given.get("by", "")
    by = by if by in RESOURCES else RESOURCES[0]
    number = page_number(visit.given)
    wanted = {"zoneid": zone.get("id", ""), "showcapacities": True, "page": number, "pagesize": CLUSTERS}
    clusters, count = visit.calls.page("listClustersMetrics", wanted) if zone else ([], 0)
    pods: dict[str, list[Row]] = {}
    for row in sorted(map(_cluster, clusters), key=lambda one: (str(one["podname"]), str(one["name"]))):
        pods.setdefault(str(row["podname"]), []).append(row)
    return visit.page(
        "capacity.html",
        zones=zones,
        zone=zone,
        hosts=hosts_in_trouble(health, {"zoneid": zone["id"]}) if zone else [],
        whole={row["name"]: row for row in zone.get("capacity") or ()},
        pods=pods,
        count=count,
        number=number,
        size=CLUSTERS,
        by=by,
        resources=RESOURCES,
        heat=heat,
        offerings=visit.calls.rows("listServiceOfferings", {"state": "Active"}),
        templates=visit.calls.rows("listTemplates", {"templatefilter": "executable", "zoneid": zone["id"]})
        if zone
        else [],
    )


def fit(visit: Visit) -> Response:
    """Return the page with the number of further VMs of an offering that fit, and the host of the next VM."""
    form = visit.form
    wanted = {name: form.get(name, "") for name in ("zoneid", "serviceofferingid", "templateid")}
    if not all(wanted.values()):
        return visit.page("fragments/fit.html", plan=None, refused="", spread=Spread((), ()))
    networks = visit.calls.rows("listNetworks", {"zoneid": wanted["zoneid"], "canusefordeploy": True})
    zones = visit.calls.rows("listZones", {"id": wanted["zoneid"]})
    if networks and zones and zones[0].get("networktype") == "Advanced":
        wanted["networkids"] = networks[0]["id"]
    try:
        plan = visit.calls("bulkDeployVirtualMachine", {**wanted, "virtualmachinecount": 1, "dryrun": True})["plan"]
    except ApiRefused as error:
        return visit.page("fragments/fit.html", plan=None, refused=str(error), spread=Spread((), ()))
    return visit.page("fragments/fit.html", plan=plan, refused="", spread=spread_of(plan))


def cluster(visit: Visit) -> Response:
    """Return the page of a cluster with its hosts and graphs."""
    wanted = {"id": visit.given.get("id") or "-"}
    rows = visit.calls.rows("listClusters", {**wanted, "showcapacities": True})
    if not rows:
        raise ApiRefused(NOT_FOUND, visit.pages.texts.capacity.no_cluster)
    hosts = [
        _host(row) for row in _rows(visit, "listHostsMetrics", {"clusterid": rows[0]["id"], "type": "Routing"})
    ]
    by = visit.given.get("by", "")
    return visit.page(
        "cluster.html",
        cluster=_cluster(rows[0]),
        graphs=host_graphs(visit, {"clusterid": rows[0]["id"]}),
        more=actions_of(CLUSTER, visit),
        hosts=sorted(hosts, key=lambda one: str(one["name"])),
        by=by if by in RESOURCES[:2] else RESOURCES[0],
        resources=RESOURCES[:2],
        heat=heat,
    )


def host(visit: Visit) -> Response:
    """Return the page of a host with its VMs, their claims and graphs."""
    values = _host_values(visit)
    return visit.page("host.html", graphs=host_graphs(visit, {"hostid": values["host"]["id"]}), **values)


def host_live(visit: Visit) -> Response:
    """Return the part of a host's page that is refreshed periodically."""
    return visit.page("fragments/host.html", **_host_values(visit))


def change_host(visit: Visit) -> Response:
    """Begin or end a host's maintenance."""
    action, host_id = visit.form.get("action", ""), visit.form.get("id", "")
    back = address("host", id=host_id)
    if action not in HOST_ACTIONS:
        return Response(status=303, headers={"Location": back})
    if action == "prepareHostForMaintenance" and "sure" not in visit.form:
        return _confirm_maintenance(host_id, back, visit)
    visit.calls(action, {"id": host_id, "planindex": visit.form.get("planindex", "")})
    return Response(status=303, headers={"Location": back})


def _confirm_maintenance(host_id: str, back: str, visit: Visit) -> Response:
    """Return the page that asks whether to move all VMs off a host, with the planned destination of each VM.

    If every VM has a destination, confirming applies exactly this plan or fails.
    """
    texts = visit.pages.texts
    plan = visit.calls("prepareHostForMaintenance", {"id": host_id, "dryrun": True})["plan"]
    rows = visit.calls.rows("listHosts", {"id": host_id, "details": "min"})
    name = rows[0]["name"] if rows else host_id
    index = [("planindex", str(plan["index"]))] if plan.get("index") and plan["fits"] == plan["count"] else []
    return visit.page(
        "maintenance.html",
        title=texts.capacity.maintenance_title(name=name),
        text=texts.capacity.maintenance_text,
        yes=texts.capacity.maintenance_yes(name=name),
        action="host-change",
        fields=[("action", "prepareHostForMaintenance"), ("id", host_id), *index],
        back=back,
        names=(),
        plan=plan,
    )


def _host_values(visit: Visit) -> dict[str, Any]:
    found = _host(_find_host(visit))
    host_id = found["id"]
    vms, count = visit.calls.page(
        "listVirtualMachines", {"hostid": host_id, "listall": True, "page": 1, "pagesize": MOST_VMS}
    )
    return {
        "moves": _moves(host_id, vms, visit)
        if found.get("resourcestate") in MAINTENANCE and "listAsyncJobs" in visit.may
        else (),
        "host": found,
        "vms": sorted(vms, key=lambda row: -int(row.get("memory") or 0)),
        "count": count,
        "moving": sum(row.get("state") == "Migrating" for row in vms),
        "actions": [
            action
            for action, states in HOST_ACTIONS.items()
            if found.get("resourcestate") in states and action in visit.may
        ],
        "more": actions_of(HOST, visit),
        "is_moving": found.get("resourcestate") == "PrepareForMaintenance",
    }


def _moves(host_id: str, vms: Sequence[Row], visit: Visit) -> list[Row]:
    """Return the newest move of each VM that left the host or will leave it. VMs that wait for their move are last.

    A VM that is being moved already has a claim on its new host.
    """
    jobs = visit.calls.rows(
        "listAsyncJobs", {"hostid": host_id, "listall": True, "page": 1, "pagesize": MOST_VMS, "sortby": "-created"}
    )
    moves = {str(job.get("jobinstanceid")): job for job in map(TABLES["jobs"].read, reversed(jobs))}
    unnamed = [vm for vm, job in moves.items() if job["state"] != "succeeded"]
    known = {str(vm["id"]): vm for vm in vms}
    if unnamed:
        wanted = {"ids": ",".join(unnamed), "listall": True, "page": 1, "pagesize": MOST_VMS}
        known |= {str(vm["id"]): vm for vm in visit.calls.rows("listVirtualMachines", wanted)}
    for vm_id in {*unnamed} & known.keys():
        vm, job = known[vm_id], moves[vm_id]
        host = vm.get("hostname") if job["state"] == "in progress" and vm.get("hostid") != host_id else None
        moves[vm_id] = {**job, "virtualmachine": vm["name"], "hostname": host}
    waiting = [
        {"jobinstanceid": str(vm["id"]), "virtualmachine": vm["name"], "state": "waiting"}
        for vm in vms
        if str(vm["id"]) not in moves
    ]
    return [*moves.values(), *waiting]


def _find_host(visit: Visit) -> Row:
    """Return the host that the URL names: by its id, or by its cluster's id and its name, as the zone map does."""
    given = visit.given
    name = given.get("name", "")
    wanted = {"clusterid": given.get("clusterid", ""), "name": name} if name else {"id": given.get("id") or "-"}
    rows = visit.calls.rows("listHostsMetrics", wanted)
    found = [row for row in rows if name in ("", row["name"])]  # the list ignores upper and lower case
    if not found:
        raise ApiRefused(NOT_FOUND, visit.pages.texts.capacity.no_host)
    return found[0]


def _rows(visit: Visit, command: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
    return list(visit.calls.every_row(command, parameters, page_size=PAGE, most=MOST_PAGES))


def _cluster(row: Row) -> dict[str, Any]:
    """Return a cluster's row with its capacities by name, each with its used share in percent."""
    found = {one["name"]: {**one, "share": float(one["percentused"])} for one in row.get("capacity") or ()}
    return {**row, "capacities": found}


def _host(row: Row) -> dict[str, Any]:
    """Return a host's row with its capacities in the same format as those of a cluster."""
    cpu_total, cpu = float(row.get("cpuwithoverprovisioning") or 0), float(row.get("cpuallocatedvalue") or 0)
    memory_total = float(row.get("memorywithoverprovisioning") or 0)
    memory = float(row.get("memoryallocatedbytes") or 0)
    return {
        **row,
        "capacities": {
            "MEMORY": {"capacitytotal": memory_total, "capacityused": memory, "share": share(memory, memory_total)},
            "CPU": {"capacitytotal": cpu_total, "capacityused": cpu, "share": share(cpu, cpu_total)},
        },
        "is_off": row.get("state") != "Up" or row.get("resourcestate") != "Enabled",
        "in_per_cent": PER_CENT,
    }


VIEWS = MappingProxyType(
    {
        ("GET", "capacity"): capacity,
        ("POST", "capacity-fit"): fit,
        ("GET", "cluster"): cluster,
        ("GET", "host"): host,
        ("GET", "host-live"): host_live,
        ("POST", "host-change"): change_host,
    }
)
