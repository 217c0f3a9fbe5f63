"""The limits of an owner and of the owner's domain after a deployment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bulkdeploy.console.calls import Calls, Row

UNLIMITED = "Unlimited"


@dataclass(frozen=True, slots=True)
class LimitAfter:
    """A resource limit before and after a deployment. Amounts are numbers of VMs, cores or MiB.

    Attributes:
        owner: whose limit it is.
        resource: vm, cpu or memory.
        needed: what the deployment takes.
        left: what remains after it; negative: the deployment is rejected.
    """

    owner: str
    resource: str
    limit: int
    needed: int
    left: int


def limits_after(
    calls: Calls, owner: Mapping[str, str], offering: Row, custom: Mapping[str, str], count: int
) -> list[LimitAfter]:
    """Return the limits that a deployment would use up in part; unlimited ones are left out.

    Args:
        calls: makes the calls as the person at the browser.
        owner: the parameters that name the owner; empty: the person.
        offering: the service offering, as listServiceOfferings answers it.
        custom: sizes that the offering leaves open, by the names of details.
        count: VMs.
    """
    needed = {
        "vm": count,
        "cpu": count * int(offering.get("cpunumber") or custom.get("cpuNumber") or 0),
        "memory": count * int(offering.get("memory") or custom.get("memory") or 0),
    }
    return [one for row in _owners(calls, owner) for one in _of(row, needed)]


def _owners(calls: Calls, owner: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the account or project and its domain, with their limits and counts."""
    if owner.get("projectid"):
        found = calls.rows("listProjects", {"id": owner["projectid"], "listall": True})
    elif owner.get("account"):
        found = calls.rows("listAccounts", {"name": owner["account"], "domainid": owner["domainid"]})
    else:
        found = calls.rows("listAccounts", {"page": 1, "pagesize": 1})
    for row in found[:1]:
        yield row
        yield from calls.rows("listDomains", {"id": row["domainid"], "details": "resource"})


def _of(row: Row, needed: Mapping[str, int]) -> Iterator[LimitAfter]:
    for resource, amount in needed.items():
        limit = str(row.get(f"{resource}limit") or UNLIMITED)
        if limit.lstrip("-").isdigit() and int(limit) >= 0:
            left = int(limit) - int(row.get(f"{resource}total") or 0) - amount
            yield LimitAfter(str(row.get("name")), resource, int(limit), amount, left)
