"""The rule that excludes hosts that do not answer."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="host_not_up",
    text="the host is not Up",
    remedy="check the host's state and its agent",
    order=50,
    lasting=True,
    excludes_hosts=lambda zone, _: ~zone.hosts.up,
)
