"""The network services that VMs can get, and their providers, in CloudStack's terms.

bulkdeploy assigns addresses to VMs and applies rules of security groups; it runs no routers. Other providers are
appliances that bulkdeploy does not control.
"""

from collections.abc import Mapping
from enum import StrEnum


class TrafficType(StrEnum):
    """The kind of traffic that a physical network carries."""

    PUBLIC = "Public"
    GUEST = "Guest"
    MANAGEMENT = "Management"
    STORAGE = "Storage"
    CONTROL = "Control"


VIRTUAL_ROUTER = "VirtualRouter"
VPC_VIRTUAL_ROUTER = "VpcVirtualRouter"
INTERNAL_LOAD_BALANCER = "InternalLbVm"
SECURITY_GROUPS = "SecurityGroupProvider"

PROVIDERS: Mapping[str, tuple[str, ...]] = {
    VIRTUAL_ROUTER: (
        *("Dhcp", "Dns", "Firewall", "Gateway", "Lb", "PortForwarding", "SourceNat", "StaticNat", "UserData"),
        "Vpn",
    ),
    VPC_VIRTUAL_ROUTER: (
        *("Dhcp", "Dns", "Gateway", "Lb", "NetworkACL", "PortForwarding", "SourceNat", "StaticNat", "UserData"),
        "Vpn",
    ),
    INTERNAL_LOAD_BALANCER: ("Lb",),
    SECURITY_GROUPS: ("SecurityGroup",),
    "ConfigDrive": ("Dhcp", "Dns", "UserData"),
}
"""Services by the name of their provider."""

ELEMENTS = frozenset({VIRTUAL_ROUTER, VPC_VIRTUAL_ROUTER, INTERNAL_LOAD_BALANCER})
"""Providers that are configured before they are enabled."""

SERVICES: Mapping[str, tuple[str, ...]] = {
    service: tuple(name for name, offered in PROVIDERS.items() if service in offered)
    for service in sorted({service for offered in PROVIDERS.values() for service in offered})
}
"""Providers by the name of their service."""
