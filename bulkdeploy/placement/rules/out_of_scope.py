"""The rule that excludes hosts outside the pod, cluster or host to which a call is pinned."""

import numpy as np

from bulkdeploy.placement.model import Flags, PlacementRequest, Purpose, ZoneSnapshot
from bulkdeploy.placement.rule import Rule


def elsewhere(snapshot: ZoneSnapshot, request: PlacementRequest) -> Flags:
    """Return which hosts are outside the pod, the cluster or the host that the request names."""
    hosts, clusters = snapshot.hosts, snapshot.clusters
    outside = np.zeros(len(hosts.id), dtype=bool)
    if request.pod_id is not None:
        outside |= clusters.pod_id[hosts.cluster] != request.pod_id
    if request.cluster_id is not None:
        outside |= clusters.id[hosts.cluster] != request.cluster_id
    if request.host_id is not None:
        outside |= hosts.id != request.host_id
    return outside


RULE = Rule(
    reason="out_of_scope",
    text="outside the requested zone, pod, cluster or host, or unable to reach the VM's volumes or address",
    remedy="request another pod, cluster or host, or none",
    order=10,
    purposes=frozenset(Purpose),
    lasting=True,
    excludes_hosts=elsewhere,
)
