"""The limits of an owner and of the owner's domain after a deployment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bulkdeploy.console.calls import Calls, Row

UNLIMITED = "Unlimited"
LIMITED = ("user_vm", "cpu", "memory")
"""The resources that a deployment takes, by the names of listResourceLimits."""


@dataclass(frozen=True, slots=True)
class LimitAfter:
    """A resource limit before and after a deployment. Amounts are numbers of VMs, cores or MiB.

    Attributes:
        owner: the name of the account, project or domain that has the limit.
        resource: ``vm``, ``cpu`` or ``memory``.
        needed: the amount that the deployment needs.
        left: the amount that remains after the deployment. If it is negative, the deployment is rejected.
    """

    owner: str
    resource: str
    limit: int
    needed: int
    left: int


def limits_after(
    calls: Calls, owner: Mapping[str, str], offering: Row, custom: Mapping[str, str], count: int
) -> list[LimitAfter]:
    """Return the limits that apply to a deployment, with the amounts that it needs.

    Unlimited resources are left out.

    Args:
        calls: the API calls of the signed-in user.
        owner: the parameters that name the owner. If empty, the user is the owner.
        offering: the service offering, as a row of listServiceOfferings.
        custom: the sizes for a custom offering, by names of details.
        count: the number of VMs.
    """
    needed = {
        "vm": count,
        "cpu": count * int(offering.get("cpunumber") or custom.get("cpuNumber") or 0),
        "memory": count * int(offering.get("memory") or custom.get("memory") or 0),
    }
    return [one for row in _owners(calls, owner) for one in _of(row, needed)]


def _owners(calls: Calls, owner: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the account or project and its domain with limits and counts, if they have limits.

    Counts of owners without limits are not read, because they cost more than the limits.
    """
    limits = calls.rows("listResourceLimits", owner)
    domain_id = limits[0]["domainid"]
    if _is_limited(limits):
        yield from _counts(calls, owner)[:1]
    if _is_limited(calls.rows("listResourceLimits", {"domainid": domain_id})):
        yield from calls.rows("listDomains", {"id": domain_id, "details": "resource"})


def _is_limited(limits: Sequence[Row]) -> bool:
    return any(int(one["max"]) >= 0 and one["resourcetypename"] in LIMITED for one in limits)


def _counts(calls: Calls, owner: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the row of the account or project, with its limits and counts, as a list of at most one row."""
    if owner.get("projectid"):
        return calls.rows("listProjects", {"id": owner["projectid"], "listall": True})
    if owner.get("account"):
        return calls.rows("listAccounts", {"name": owner["account"], "domainid": owner["domainid"]})
    return calls.rows("listAccounts", {"page": 1, "pagesize": 1})


def _of(row: Row, needed: Mapping[str, int]) -> Iterator[LimitAfter]:
    for resource, amount in needed.items():
        limit = str(row.get(f"{resource}limit") or UNLIMITED)
        if limit.lstrip("-").isdigit() and int(limit) >= 0:
            left = int(limit) - int(row.get(f"{resource}total") or 0) - amount
            yield LimitAfter(str(row.get("name")), resource, int(limit), amount, left)
