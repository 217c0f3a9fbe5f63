"""The rule that a host has enough unclaimed memory, over-commit included."""

from bulkdeploy.placement.fitting import fit
from bulkdeploy.placement.model import Ints, PlacementRequest, Purpose, ZoneSnapshot
from bulkdeploy.placement.rule import PLACING, Rule


def free_memory(snapshot: ZoneSnapshot, request: PlacementRequest) -> Ints:
    """Return the number of VMs that fit into the free MiB of each host."""
    hosts = snapshot.hosts
    return fit(hosts.memory_limit - hosts.memory_used, request.memory_mib)


RULE = Rule(
    reason="memory",
    text="too little memory is free",
    remedy="free or add hosts, or use an offering with less memory",
    order=160,
    purposes=PLACING | {Purpose.GROW},
    host_capacity=free_memory,
)
