"""The rule that excludes disabled pods."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="pod_disabled",
    text="its pod is disabled",
    remedy="enable the pod",
    order=40,
    lasting=True,
    excludes_clusters=lambda zone, _: ~zone.clusters.pod_enabled,
)
