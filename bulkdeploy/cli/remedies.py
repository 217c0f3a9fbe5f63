"""What would help: sentences for errors and for the rules by which a plan leaves hosts out."""

REASONS: dict[str, tuple[str, str]] = {
    "out_of_scope": ("outside the pod or cluster asked for", "leave podid and clusterid out"),
    "hypervisor": ("another hypervisor than the template's", "use a template for that hypervisor"),
    "cluster_disabled": ("its cluster is disabled", "enable the cluster"),
    "pod_disabled": ("its pod is disabled", "enable the pod"),
    "host_not_up": ("the host is not Up", "look at the host's state and its agent"),
    "host_not_enabled": ("the host is disabled or in maintenance", "enable it, or end its maintenance"),
    "avoided": ("a start failed there before", "look at the host's state"),
    "dedicated_to_others": (
        "dedicated to another account or domain",
        "release the dedication, or deploy for its owner",
    ),
    "not_dedicated": ("not dedicated to the owner, as the affinity group wants", "dedicate more hosts"),
    "host_tags": ("lacks the host tags of the offering", "tag more hosts, or use an offering without tags"),
    "cpu_cores": ("has fewer cores than the offering", "use an offering with fewer cores"),
    "cpu_speed": ("its cores are slower than the offering's", "use an offering with a lower speed"),
    "cpu": ("too little CPU is free", "free or add hosts, or raise cpu.overprovisioning.factor"),
    "memory": ("too little memory is free", "free or add hosts, or use an offering with less memory"),
    "guest_limit": ("holds as many guests as its hypervisor may", "add hosts"),
    "affinity": ("ruled out by an affinity group", "leave the affinity group out, or add hosts"),
    "storage": ("no pool it can use has room for the disks", "add or free primary storage"),
    "cluster_threshold": ("its cluster is above its disable threshold", "free the cluster, or raise the threshold"),
}
"""What each reason means, and what would change it. A reason that is not here speaks for itself."""

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


def reason_text(reason: str) -> str:
    """What a reason for leaving hosts out means."""
    return REASONS.get(reason, (reason.replace("_", " "), ""))[0]


def reason_remedy(reason: str) -> str:
    """What would change it; empty if nothing is known."""
    return REASONS.get(reason, ("", ""))[1]


def remedy(code: object, text: str) -> str:
    """What would help against an error of a job; empty if nothing is known."""
    lower = text.lower()
    if "cancel" in lower:
        return "It was cancelled; deploy again what is still wanted"
    if "affinity" in lower:
        return "Leave the affinity group out, or add hosts to it"
    if "address" in lower and code == 533:
        return "Add addresses to the network, or use another network"
    return BY_CODE.get(code, "") if isinstance(code, int) else ""
