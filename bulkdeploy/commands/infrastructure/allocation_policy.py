"""The parameter ``allocpolicy``: whether a pod or a cluster is preferred for new VMs.

CloudStack does not have this parameter; Ganeti's node groups do.
"""

from bulkdeploy.declare.parameters import string
from bulkdeploy.domain.infrastructure.topology import ALLOCATION_POLICIES

ALLOCATION_POLICY = string(
    "allocpolicy",
    "preferred (initial value), last_resort (only VMs that fit nowhere else) or unallocable (no new VMs)",
    choices=ALLOCATION_POLICIES,
)
