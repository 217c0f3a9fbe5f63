"""The health page of the service, with the rules of docs/reference/monitoring.md."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from flask import Response

from bulkdeploy.console.visit import Visit

LONGEST_OUTBOX_S, LONGEST_QUEUED_S = 60.0, 300.0
MOST_FAILED = 0.05


HOST_TROUBLE = (
    ("state", "Down"),
    ("state", "Disconnected"),
    ("state", "Alert"),
    ("state", "Connecting"),
    ("resourcestate", "Disabled"),
    ("resourcestate", "PrepareForMaintenance"),
    ("resourcestate", "Maintenance"),
    ("resourcestate", "ErrorInMaintenance"),
    ("resourcestate", "ErrorInPrepareForMaintenance"),
)
"""Filters of hosts that an operator wants to know of."""


def page(visit: Visit) -> Response:
    """Return the page about the health of the service."""
    return visit.page("health.html", **_values(visit))


def live(visit: Visit) -> Response:
    """Return the part of the health page that is refreshed periodically."""
    return visit.page("fragments/health.html", **_values(visit))


def _values(visit: Visit) -> dict[str, Any]:
    health = visit.calls("getHealth")["health"]
    jobs = {row["state"]: row for row in health["jobs"]}
    vms = {row["state"]: int(row["count"]) for row in health["virtualmachines"]}
    return {
        "health": health,
        "jobs": jobs,
        "vms": vms,
        "alarms": alarms_of(health, jobs, vms),
        "hosts": hosts_in_trouble(health, {}),
    }


def history(visit: Visit) -> Response:
    """Return the part of the page about the last 24 hours, which the page reads once."""
    found = visit.calls("getJobHistory")["jobhistory"]
    hours = [{**row, "place": place} for place, row in enumerate(found["hours"])]
    failures = found.get("failures") or []
    return visit.page(
        "fragments/history.html",
        hours=hours,
        highest=max(row["deployed"] + row["failed"] for row in hours) or 1,
        failures=failures,
        most=max((row["count"] for row in failures), default=1),
    )


def hosts_in_trouble(health: Mapping[str, Any], wanted: Mapping[str, str]) -> list[tuple[dict[str, str], str, int]]:
    """Return the filters, the state and the number of hosts that are not up and enabled, by state.

    Args:
        health: the response of getHealth. Empty for users who may not call it.
        wanted: further filters of hosts.
    """
    rows = [row for row in health.get("hosts") or () if wanted.items() <= row.items()]
    found = [
        ({**wanted, name: value}, value, sum(int(row["count"]) for row in rows if row[name] == value))
        for name, value in HOST_TROUBLE
    ]
    return [one for one in found if one[2]]


def alarms_of(health: Mapping[str, Any], jobs: Mapping[str, Any], vms: Mapping[str, int]) -> list[str]:
    """Return the names of the active alarms. The operations guide defines the alarms."""
    queued, running = jobs["queued"], jobs["running"]
    holds = {
        "redis": not health["redisup"],
        "dropped": jobs["dropped"]["count"] > 0,
        "queued": queued["count"] > 0 and running["count"] == 0 and queued["oldest"] > LONGEST_QUEUED_S,
        "outbox": health["outboxoldest"] > LONGEST_OUTBOX_S,
        "failed": health["failed"] > MOST_FAILED * max(1, health["finished"]),
        "audit": int(health.get("auditbreaches") or 0) > 0,
        "unknown": vms.get("Unknown", 0) > 0,
        "error": vms.get("Error", 0) > 0,
    }
    return [name for name, is_so in holds.items() if is_so]


VIEWS = MappingProxyType({("GET", "health"): page, ("GET", "health-live"): live, ("GET", "job-history"): history})
