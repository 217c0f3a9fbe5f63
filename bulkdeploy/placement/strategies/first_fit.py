"""``FirstFitPlanner``: clusters with the lowest CPU usage first, each filled to its capacity.

With pods first, pods by least use of CPU, and the clusters inside each pod likewise. The order is that of
the moment of the plan: a later batch sees the use that the first one made and may begin elsewhere.
"""

from bulkdeploy.placement.strategy import Strategy, least_used_first

STRATEGY = Strategy(
    planners=("FirstFitPlanner",),
    description="clusters with the least share of CPU in use come first, each filled to its capacity",
    order=10,
    filling=least_used_first,
)
