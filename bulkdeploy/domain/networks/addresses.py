"""Addresses of networks that are defined by gateway and netmask."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from uuid import UUID

from bulkdeploy.domain.errors import InvalidParameter

GENERATED_MACS = "1e:"
"""How every generated MAC address begins: locally administered, unicast."""


@dataclass(frozen=True, slots=True)
class GivenNic:
    """The addresses that an upstream cloud assigned to a NIC of a VM."""

    network_uuid: UUID
    mac_address: str
    ip_address: str | None = None
    gateway: str | None = None
    netmask: str | None = None


def subnet_of(gateway: str, netmask: str) -> IPv4Network:
    """Return the network of a gateway. Both arguments must be valid."""
    return IPv4Network(f"{gateway}/{netmask}", strict=False)


def check_in_subnet(parameter: str, address: str, subnet: IPv4Network) -> None:
    """Check that an address can be assigned to a machine in a network. Errors name ``parameter``.

    Raises:
        InvalidParameter: the address is outside of the network, or is its first or last address.
    """
    if not subnet.network_address < IPv4Address(address) < subnet.broadcast_address:
        raise InvalidParameter(parameter, address, f"it must be an address of the gateway's network {subnet}")


def check_order(start: str, end: str, parameter: str = "endip") -> None:
    """Check that the last address of a range is not below its first address. Errors name ``parameter``.

    Raises:
        InvalidParameter: the last address is below the first.
    """
    if IPv4Address(end) < IPv4Address(start):
        raise InvalidParameter(parameter, end, f"it must not be below startip {start}")
