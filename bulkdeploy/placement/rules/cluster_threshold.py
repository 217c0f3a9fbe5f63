"""Clusters keep headroom: what starts may fill them up to their disable thresholds (reference section 6.3).

What runs already may use the headroom, to move and to grow; that is what it is for.
"""

import numpy as np

from bulkdeploy.placement.fitting import ENDLESS, fit
from bulkdeploy.placement.model import Floats, Ints, PlacementRequest, Purpose, ZoneSnapshot
from bulkdeploy.placement.rule import Rule


def below_thresholds(snapshot: ZoneSnapshot, request: PlacementRequest) -> Ints:
    """Per cluster how many VMs keep (used + requested) / limit at or below both thresholds."""
    clusters, use = snapshot.clusters, snapshot.cluster_use
    result = np.full(len(clusters.id), ENDLESS, dtype=np.int64)
    for threshold, limit, used, need in (
        (clusters.cpu_threshold, use.cpu_limit, use.cpu_used, request.cpu_number * request.cpu_mhz),
        (clusters.memory_threshold, use.memory_limit, use.memory_used, request.memory_mib),
    ):
        bounded = np.isfinite(threshold)
        top = _highest_use(limit, np.where(bounded, threshold, 0.0))
        np.minimum(result, np.where(bounded, fit(top - used, need), ENDLESS), out=result)
    return result


def _highest_use(limit: Ints, threshold: Floats) -> Ints:
    """The greatest whole use with use / limit <= threshold, by that very division: the ledger divides alike."""
    top = np.floor(limit * threshold).astype(np.int64)
    divisor = np.maximum(limit, 1)
    top = np.where((top + 1) / divisor <= threshold, top + 1, top)
    return np.where(top / divisor > threshold, top - 1, top)


RULE = Rule(
    reason="cluster_threshold",
    text="its cluster would pass a disable threshold",
    remedy="free the cluster, or raise cluster.cpu or cluster.memory.allocated.capacity.disablethreshold",
    order=200,
    purposes=frozenset({Purpose.START}),
    cluster_capacity=below_thresholds,
)
