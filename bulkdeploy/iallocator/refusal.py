"""The reasons why an instance was not placed: the resource that each node lacks, and how much of it."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.document import Instance
from bulkdeploy.iallocator.rules import TEXTS, breach, lacking
from bulkdeploy.placement.capacity import HostAnswers
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.model import PlacementRequest, ZoneSnapshot


@dataclass(frozen=True, slots=True)
class Refusal:
    """An instance that was not placed, and the reason."""

    instance: Instance
    reason: str

    def __str__(self) -> str:
        return f"{self.instance.name}: {self.reason}"


def explain(
    cluster: GanetiCluster,
    instance: Instance,
    snapshot: ZoneSnapshot,
    request: PlacementRequest,
    catalog: PlacementCatalog,
) -> str:
    """Return the reasons that exclude nodes from taking an instance, as one line.

    For an amount, the text has the node that lacks the least; for a policy, the limit.
    """
    nodes_by_reason: defaultdict[str, list[int]] = defaultdict(list)
    for answer in HostAnswers(snapshot, request, catalog).of(range(len(cluster.nodes))):
        if answer.reason is not None:
            nodes_by_reason[answer.reason].append(answer.host_id)
    if not nodes_by_reason:
        return "the cluster has no nodes"
    if (
        len(nodes_by_reason) > 1
    ):  # nodes that the request does not allow are of no interest if there are other reasons
        nodes_by_reason.pop("elsewhere", None)
    hosts = snapshot.hosts
    free_memory = hosts.memory_limit + 1 - hosts.memory_used
    parts = []
    for reason, nodes in nodes_by_reason.items():
        amounts = lacking(cluster, reason, instance, free_memory)
        if amounts is not None:
            missing, unit = amounts
            nearest = nodes[int(np.argmin(missing[nodes]))]
            detail = f"node {cluster.names[nearest]} lacks {missing[nearest]} {unit}"
            parts.append(f"{detail}, {len(nodes) - 1} others lack as much or more" if len(nodes) > 1 else detail)
        elif reason == "policy":
            groups = dict.fromkeys(cluster.group_of[nodes].tolist())
            parts += [str(breach(cluster, group, instance)) for group in groups]
        else:
            shown = ", ".join(cluster.names[node] for node in nodes[:3])
            more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
            parts.append(f"{shown}{more}: {TEXTS[reason]}")
    return "; ".join(parts)
