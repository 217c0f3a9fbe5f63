"""Addresses of networks that are given by gateway and netmask."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from uuid import UUID

from bulkdeploy.domain.errors import InvalidParameter

GENERATED_MACS = "1e:"
"""How every generated MAC address begins: locally administered, unicast."""


@dataclass(frozen=True, slots=True)
class GivenNic:
    """The addresses that a cloud gave to a nic of a VM."""

    network_uuid: UUID
    mac_address: str
    ip_address: str | None = None
    gateway: str | None = None
    netmask: str | None = None


def subnet_of(gateway: str, netmask: str) -> IPv4Network:
    """Return the network of a gateway. Both arguments must be valid."""
    return IPv4Network(f"{gateway}/{netmask}", strict=False)


def check_in_subnet(parameter: str, address: str, subnet: IPv4Network) -> None:
    """Check that an address is one that a machine of the network may have.

    Raises:
        InvalidParameter: it is outside, or the network's first or last.
    """
    if not subnet.network_address < IPv4Address(address) < subnet.broadcast_address:
        raise InvalidParameter(parameter, address, f"it must be an address of the gateway's network {subnet}")


def check_order(start: str, end: str, parameter: str = "endip") -> None:
    """Check that a range does not end before it begins.

    Raises:
        InvalidParameter: it does.
    """
    if IPv4Address(end) < IPv4Address(start):
        raise InvalidParameter(parameter, end, f"it must not be below startip {start}")
