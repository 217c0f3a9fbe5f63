"""The rule that excludes hosts that are dedicated to other owners (cloudstack-protocol.md 6.3)."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="dedicated_to_others",
    text="dedicated to another account or domain",
    remedy="release the dedication, or deploy for its owner",
    order=80,
    lasting=True,
    excludes_hosts=lambda zone, _: zone.hosts.foreign,
)
