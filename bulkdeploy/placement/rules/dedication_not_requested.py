"""The rule that only VMs in an ExplicitDedication group use hosts dedicated to their owner."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="dedication_not_requested",
    text="dedicated to the owner, and the VMs are in no ExplicitDedication affinity group",
    remedy="deploy with the dedication's affinity group",
    order=100,
    lasting=True,
    excludes_hosts=lambda zone, request: None if request.dedicated else zone.hosts.own,
)
