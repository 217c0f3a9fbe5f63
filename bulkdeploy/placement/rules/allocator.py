"""The rule that VMs are placed only on hosts that an allocator program chose."""

import numpy as np

from bulkdeploy.placement.model import Ints, PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.rule import Rule


def chosen(snapshot: ZoneSnapshot, request: PlacementRequest) -> Ints | None:
    """Return how many VMs an allocator program placed on each host, or None if no allocator chose the hosts."""
    if request.most_by_host is None:
        return None
    most = request.most_by_host
    return np.array([most.get(host_id, 0) for host_id in snapshot.hosts.id.tolist()], dtype=np.int64)


RULE = Rule(
    reason="allocator",
    text="the allocator program did not choose the host",
    remedy="check the program's output, or add builtin after it in placement.allocators",
    order=185,
    host_capacity=chosen,
)
