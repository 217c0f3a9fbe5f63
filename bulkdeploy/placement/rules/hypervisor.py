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
    text="another hypervisor than the template's",
    remedy="use a template for that hypervisor",
    order=20,
    lasting=True,
    excludes_clusters=other_hypervisor,
)
