"""The rule that clusters are filled at most to their disable thresholds (cloudstack-protocol.md 6.3).

Running VMs may exceed the thresholds when they migrate or are scaled up: the headroom is reserved for this.
"""

import numpy as np

from bulkdeploy.placement.fitting import fit
from bulkdeploy.placement.model import Floats, Ints, PlacementRequest, Purpose, ZoneSnapshot
from bulkdeploy.placement.rule import Rule

UNBOUNDED = 1 << 60
"""MHz or MiB that no cluster has."""


def below_thresholds(snapshot: ZoneSnapshot, request: PlacementRequest) -> Ints:
    """Return the number of VMs per cluster that keep (used + requested) / limit at or below both thresholds."""
    use = snapshot.cluster_use
    most_cpu, most_memory = snapshot.once("highest use", lambda: _highest_use_of(snapshot))
    cpu = fit(most_cpu - use.cpu_used, request.cpu_number * request.cpu_mhz)
    return np.minimum(cpu, fit(most_memory - use.memory_used, request.memory_mib))


def _highest_use_of(snapshot: ZoneSnapshot) -> tuple[Ints, Ints]:
    """Return the MHz and MiB per cluster up to which both thresholds allow use."""
    clusters, use = snapshot.clusters, snapshot.cluster_use
    cpu = _highest_use(use.cpu_limit, clusters.cpu_threshold)
    return cpu, _highest_use(use.memory_limit, clusters.memory_threshold)


def _highest_use(limit: Ints, threshold: Floats) -> Ints:
    """Return the greatest integer use with use / limit <= threshold. The ledger divides in the same way."""
    bounded = np.isfinite(threshold)
    threshold = np.where(bounded, threshold, 0.0)
    top = np.floor(limit * threshold).astype(np.int64)
    divisor = np.maximum(limit, 1)
    top = np.where((top + 1) / divisor <= threshold, top + 1, top)
    top = np.where(top / divisor > threshold, top - 1, top)
    return np.where(bounded, top, UNBOUNDED)


RULE = Rule(
    reason="cluster_threshold",
    text="its cluster would exceed a disable threshold",
    remedy="free the cluster, or raise cluster.cpu or cluster.memory.allocated.capacity.disablethreshold",
    order=200,
    purposes=frozenset({Purpose.START}),
    cluster_capacity=below_thresholds,
)
