"""The rule that a host's cores are at least as fast as the VM's."""

from bulkdeploy.placement.model import Purpose
from bulkdeploy.placement.rule import PLACING, Rule

RULE = Rule(
    reason="cpu_speed",
    text="its cores are slower than the offering's",
    remedy="use an offering with a lower speed",
    order=140,
    purposes=PLACING | {Purpose.GROW},
    excludes_hosts=lambda zone, request: zone.hosts.mhz < request.cpu_mhz,
)
