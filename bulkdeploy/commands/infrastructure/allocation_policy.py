"""``allocpolicy``: how readily a pod or a cluster takes new VMs. Ours, after Ganeti's node groups."""

from bulkdeploy.declare.parameters import string
from bulkdeploy.domain.infrastructure.topology import ALLOCATION_POLICIES

ALLOCATION_POLICY = string(
    "allocpolicy",
    "preferred (default), last_resort (only VMs that fit nowhere else) or unallocable (no new VMs)",
    choices=ALLOCATION_POLICIES,
)
