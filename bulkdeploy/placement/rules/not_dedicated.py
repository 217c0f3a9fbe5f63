"""The rule that VMs in an ExplicitDedication group use only hosts dedicated to their owner."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="not_dedicated",
    text="not dedicated to the owner, as the affinity group requires",
    remedy="dedicate more hosts, or leave the affinity group out",
    order=90,
    lasting=True,
    excludes_hosts=lambda zone, request: ~zone.hosts.own if request.dedicated else None,
)
