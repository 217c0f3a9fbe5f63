"""Why hosts take no VMs, as answers tell it: codes with their texts and remedies, and whole sentences."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.placement.rules import out_of_scope
from bulkdeploy.scheduling.catalog import placement_catalog


def reason_fields(reason: str | None) -> dict[str, Any]:
    """``reason``, ``text`` and ``remedy`` of a rule; empty without one, the code alone where the rule is gone."""
    if reason is None:
        return {}
    rule = placement_catalog().rules.get(reason)
    if rule is None:
        return {"reason": reason, "text": reason.replace("_", " "), "remedy": ""}
    return {"reason": reason, "text": rule.text, "remedy": rule.remedy}


def excluded_rows(excluded: Mapping[str, int]) -> list[dict[str, Any]]:
    """One row per reason, with how many hosts it excluded."""
    return [{**reason_fields(reason), "hosts": hosts} for reason, hosts in excluded.items()]


def in_words(excluded: Mapping[str, int]) -> str:
    """``hosts ruled out: 3 by cpu: too little CPU is free (add hosts); ...``; empty where none was.

    Hosts that are merely elsewhere are left out as long as there are others to speak of.
    """
    reported = {
        reason: hosts for reason, hosts in excluded.items() if reason != out_of_scope.RULE.reason
    } or excluded
    if not reported:
        return ""
    parts = [f"{row['hosts']} by {_sentence(row)}" for row in excluded_rows(reported)]
    return f"hosts ruled out: {'; '.join(parts)}"


def why_not(reason: str) -> str:
    """One reason in words: code, text and remedy."""
    return _sentence(reason_fields(reason))


def _sentence(row: Mapping[str, Any]) -> str:
    remedy = f" ({row['remedy']})" if row["remedy"] else ""
    return f"{row['reason']}: {row['text']}{remedy}"
