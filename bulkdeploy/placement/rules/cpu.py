"""The rule that a host has enough unclaimed CPU, over-commit included."""

from bulkdeploy.placement.fitting import fit
from bulkdeploy.placement.model import Ints, PlacementRequest, Purpose, ZoneSnapshot
from bulkdeploy.placement.rule import PLACING, Rule


def free_cpu(snapshot: ZoneSnapshot, request: PlacementRequest) -> Ints:
    """Return the number of VMs that fit into the free MHz of each host."""
    hosts = snapshot.hosts
    return fit(hosts.cpu_limit - hosts.cpu_used, request.cpu_number * request.cpu_mhz)


RULE = Rule(
    reason="cpu",
    text="too little CPU is free",
    remedy="free or add hosts, or raise the cluster's cpu.overprovisioning.factor",
    order=150,
    purposes=PLACING | {Purpose.GROW},
    host_capacity=free_cpu,
)
