"""The rule that excludes pods and clusters whose allocation policy is unallocable."""

from bulkdeploy.domain.infrastructure.topology import AllocationPolicy
from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="unallocable",
    text="its cluster or pod is unallocable",
    remedy="set another allocpolicy",
    order=45,
    lasting=True,
    excludes_clusters=lambda zone, _: zone.clusters.policy == AllocationPolicy.UNALLOCABLE.rank,
)
