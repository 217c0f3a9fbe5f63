"""The reasons why hosts cannot take VMs, for responses: codes with texts and remedies, and whole sentences."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.placement.rules import host_tags, out_of_scope
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.store.deployments.deployments import plan_hosts


def reason_fields(reason: str | None) -> dict[str, Any]:
    """Return the fields ``reason``, ``text`` and ``remedy`` of a rule, or an empty dict if there is no reason.

    If the rule does not exist any more, only its code is known.
    """
    if reason is None:
        return {}
    rule = placement_catalog().rules.get(reason)
    if rule is None:
        return {"reason": reason, "text": reason.replace("_", " "), "remedy": ""}
    return {"reason": reason, "text": rule.text, "remedy": rule.remedy}


def excluded_rows(excluded: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return one row per reason, with the number of hosts that it excluded."""
    return [{**reason_fields(reason), "hosts": hosts} for reason, hosts in excluded.items()]


def in_words(excluded: Mapping[str, int]) -> str:
    """Return a text with the number of excluded hosts per rule, or an empty text if no host was excluded.

    An example is ``hosts ruled out: 3 by cpu: too little CPU is free (add hosts); ...``. Hosts outside the
    requested part of the zone are omitted unless there are no others.
    """
    reported = {
        reason: hosts for reason, hosts in excluded.items() if reason != out_of_scope.RULE.reason
    } or excluded
    if not reported:
        return ""
    parts = [f"{row['hosts']} by {_sentence(row)}" for row in excluded_rows(reported)]
    return f"hosts ruled out: {'; '.join(parts)}"


def describe_unfit_destination(connection: Connection, host_id: int | None, excluded: Mapping[str, int]) -> str:
    """Return CloudStack's sentence about a host that a call names and that lacks a tag, which clients match.

    Returns an empty text if the call names no host, or another rule excludes the host.
    """
    if host_id is None or host_tags.RULE.reason not in excluded:
        return ""
    names = plan_hosts(connection, [host_id])
    if host_id not in names:
        return ""
    return f"Cannot deploy VM, destination host: {names[host_id]['hostname']} is not compatible for the VM"


def why_not(reason: str) -> str:
    """Return a text for the reason of a rule: its code, its text and its remedy."""
    return _sentence(reason_fields(reason))


def _sentence(row: Mapping[str, Any]) -> str:
    remedy = f" ({row['remedy']})" if row["remedy"] else ""
    return f"{row['reason']}: {row['text']}{remedy}"
