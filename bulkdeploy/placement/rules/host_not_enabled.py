"""The rule that excludes hosts that an operator disabled or put into maintenance."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="host_not_enabled",
    text="the host is disabled or in maintenance",
    remedy="enable it, or end its maintenance",
    order=60,
    lasting=True,
    excludes_hosts=lambda zone, _: ~zone.hosts.enabled,
)
