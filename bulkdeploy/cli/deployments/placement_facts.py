"""The clusters and pods of VMs, read from listHosts, because VMs name only their host."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from bulkdeploy.cli.connection.catalogue import Catalogue
from bulkdeploy.cli.connection.entities import PAGE, Caller, rows_of
from bulkdeploy.cli.deployments.jobs import has_succeeded, virtual_machine_of
from bulkdeploy.cli.failures import ApiRefused

PLACE_FIELDS = ("podid", "podname", "clusterid", "clustername")
MOST_PAGES = 100


def hosts_by_id(
    catalogue: Catalogue, call: Caller, wanted: Collection[str], zone_id: str | None = None
) -> dict[str, Mapping[str, Any]]:
    """Return the hosts with these ids by id. Hosts that the caller may not see are left out."""
    hosts: dict[str, Mapping[str, Any]] = {}
    if not wanted or catalogue.get("listHosts") is None:
        return hosts
    zone = {"zoneid": zone_id} if zone_id else {}
    try:
        if len(wanted) == 1:
            return {str(row["id"]): row for row in rows_of(call("listHosts", {"id": next(iter(wanted))}))}
        for page in range(1, MOST_PAGES + 1):
            requested = {"type": "Routing", "page": str(page), "pagesize": str(PAGE), **zone}
            rows = rows_of(call("listHosts", requested))
            hosts |= {str(row["id"]): row for row in rows if row.get("id") in wanted}
            if len(rows) < PAGE or len(hosts) == len(wanted):
                break
    except ApiRefused:
        # Only root admins may list hosts; the report is correct without them.
        return hosts
    return hosts


def host_ids(jobs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the hosts of successful jobs' VMs."""
    vms = (virtual_machine_of(job) for job in jobs if has_succeeded(job))
    return {str(vm["hostid"]) for vm in vms if vm.get("hostid")}


def clusters_of_jobs(
    jobs: Iterable[Mapping[str, Any]], hosts: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the number of new VMs per cluster, counted from jobs, for APIs that do not return a spread.

    The number of earlier VMs is unknown.
    """
    added: Counter[str] = Counter()
    places: dict[str, dict[str, Any]] = {}
    for job in jobs:
        host = hosts.get(str(virtual_machine_of(job).get("hostid")))
        if host is None or not has_succeeded(job) or not host.get("clusterid"):
            continue
        cluster = str(host["clusterid"])
        added[cluster] += 1
        places[cluster] = {name: host.get(name) for name in PLACE_FIELDS}
    return [{**places[cluster], "added": count} for cluster, count in added.items()]
