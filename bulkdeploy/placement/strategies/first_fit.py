"""``FirstFitPlanner``: clusters with the lowest CPU usage first, each filled to its capacity.

With pods first, pods are ordered by CPU usage, and so are the clusters inside each pod. The order is determined at
the time of the plan: a later batch sees the usage of the first batch and may begin elsewhere.
"""

from bulkdeploy.placement.strategy import Strategy, least_used_first

STRATEGY = Strategy(
    planners=("FirstFitPlanner",),
    description="clusters with the least share of CPU in use come first, each filled to its capacity",
    order=10,
    filling=least_used_first,
)
