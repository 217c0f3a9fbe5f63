"""Remedies of errors by error code. The remedies of placement rules are in the API's responses."""

from collections.abc import Mapping
from typing import Any

BY_CODE: dict[int, str] = {
    401: "Check the keys of the profile",
    429: "Wait a moment: the account has used up its calls",
    431: "Check the parameters; -h after the command lists them",
    432: "This user may not call it, or this server does not have it",
    530: "The server's log says more",
    531: "Ask for the right, or act as the owner (account= and domainid=)",
    533: "Free or add capacity, unpin pod and cluster, or use a smaller offering; see dryrun=true",
    534: "Look at the state of hosts and primary storage, then deploy the failed VMs again",
    535: "Raise the limit (list resourcelimits, update resourcelimit), or remove what is not needed",
    536: "Remove what uses it first",
}


def remedy_of(result: Mapping[str, Any]) -> str:
    """Return the remedy of a failed job: by the hosts that placement excluded, else by its error code."""
    excluded = [row for row in result.get("excluded") or () if isinstance(row, Mapping)]
    if not excluded:
        return remedy(result.get("errorcode"), str(result.get("errortext")))
    rows = sorted(excluded, key=lambda row: -int(row.get("hosts") or 0))
    return "; ".join(f"{row.get('hosts')} host(s): {row.get('text')} ({row.get('remedy')})" for row in rows)


def remedy(code: object, text: str) -> str:
    """Return the remedy of a job's error, or an empty text if none is known."""
    lower = text.lower()
    if "cancel" in lower:
        return "It was cancelled; deploy again what is still wanted"
    if "affinity" in lower:
        return "Leave the affinity group out, or add hosts to it"
    if "address" in lower and code == 533:
        return "Add addresses to the network, or use another network"
    return BY_CODE.get(code, "") if isinstance(code, int) else ""
