"""The rule that excludes clusters with another hypervisor than the VMs'."""

import numpy as np

from bulkdeploy.placement.model import Flags, PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.rule import Rule


def other_hypervisor(snapshot: ZoneSnapshot, request: PlacementRequest) -> Flags:
    """Return which clusters have another hypervisor than the request."""
    others: Flags = np.array(snapshot.clusters.hypervisor, dtype=str) != request.hypervisor
    return others


RULE = Rule(
    reason="hypervisor",
    text="has another hypervisor type than the template",
    remedy="use a template for this hypervisor type",
    order=20,
    lasting=True,
    excludes_clusters=other_hypervisor,
)
