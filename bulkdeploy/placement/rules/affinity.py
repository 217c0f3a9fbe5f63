"""Strict affinity groups: VMs on different hosts, or all on one host (cloudstack-protocol.md 6.5)."""

import numpy as np

from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.placement.affinity_members import has_vms, vms_on_hosts
from bulkdeploy.placement.fitting import ENDLESS
from bulkdeploy.placement.model import Ints, PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.rule import Rule


def allowed(snapshot: ZoneSnapshot, request: PlacementRequest) -> Ints | None:
    """Return the number of VMs of the batch that the strict groups allow per host, or None if they set no limit.

    If a group keeps its VMs together and has no VM yet, the planner chooses one host.
    """
    host_ids = snapshot.hosts.id
    limits: list[Ints] = []
    for affinity in request.affinities:
        if affinity.kind is AffinityType.HOST_ANTI_AFFINITY:
            limits.append(1 - vms_on_hosts(host_ids, affinity.vms_by_host))
        elif affinity.kind is AffinityType.HOST_AFFINITY and has_vms(affinity.vms_by_host):
            limits.append(np.where(vms_on_hosts(host_ids, affinity.vms_by_host) > 0, ENDLESS, 0).astype(np.int64))
    return np.minimum.reduce(limits) if limits else None


RULE = Rule(
    reason="affinity",
    text="ruled out by an affinity group",
    remedy="add hosts, or leave the affinity group out",
    order=180,
    host_capacity=allowed,
)
