"""The rule that excludes disabled clusters."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="cluster_disabled",
    text="its cluster is disabled or unmanaged",
    remedy="enable the cluster",
    order=30,
    lasting=True,
    excludes_clusters=lambda zone, _: ~zone.clusters.enabled,
)
