"""The rule that excludes hosts on which a start or a move failed, and the host that a VM must leave."""

import numpy as np

from bulkdeploy.placement.model import Flags, PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.rule import Rule


def avoided(snapshot: ZoneSnapshot, request: PlacementRequest) -> Flags | None:
    """Return which hosts the request avoids, or None if it avoids none."""
    if not request.avoid_host_ids:
        return None
    return np.isin(snapshot.hosts.id, np.fromiter(request.avoid_host_ids, np.int64))


RULE = Rule(
    reason="avoided",
    text="the VM must leave the host, or did not start on it",
    remedy="check the host's state",
    order=70,
    lasting=True,
    excludes_hosts=avoided,
)
