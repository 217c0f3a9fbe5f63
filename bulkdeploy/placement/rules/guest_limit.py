"""The rule about the number of guests that a host's hypervisor may have."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="guest_limit",
    text="holds as many guests as its hypervisor may",
    remedy="add hosts",
    order=170,
    host_capacity=lambda zone, _: zone.hosts.vms_limit - zone.hosts.vms_used,
)
