"""Subnets and VLANs of guest networks: parsed from the parameters of a call and checked."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network

from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter

DEFAULT_GUEST_CIDR = "10.1.1.0/24"
LONGEST_PREFIX = 30
HIGHEST_VLAN, HIGHEST_VXLAN = 4094, 2**24 - 1
UNTAGGED = "untagged"
SMALLEST_MTU, LARGEST_MTU = 68, 9216
"""Bytes: what IPv4 demands of every link, and what is customary for the largest frames."""
VLAN = re.compile(r"(vlan://|vxlan://)?([0-9]{1,8}|untagged)", re.IGNORECASE)


class GuestType(StrEnum):
    """The types of guest networks."""

    ISOLATED = "Isolated"
    SHARED = "Shared"
    L2 = "L2"


@dataclass(frozen=True, slots=True)
class RequestedSubnet:
    """The subnet that a call requests, not checked yet. Values that were not given are None."""

    gateway: str | None = None
    netmask: str | None = None
    start_ip: str | None = None
    end_ip: str | None = None

    def given(self) -> dict[str, str]:
        """Return the given values by the names of their parameters."""
        named = {"gateway": self.gateway, "netmask": self.netmask, "startip": self.start_ip, "endip": self.end_ip}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Subnet:
    """The addresses of a network. Those from start to end are assigned to NICs, except for the gateway."""

    cidr: str
    gateway: str
    netmask: str
    start_ip: str
    end_ip: str


def subnet_of(guest_type: GuestType, requested: RequestedSubnet, default_cidr: str) -> Subnet | None:
    """Return the subnet of a network of this type, or None for an L2 network, which has no subnet.

    A call for a Shared network states the whole subnet; ``endip`` defaults to ``startip``. A call for an Isolated
    network states gateway and netmask, or neither of them and gets ``default_cidr``; all its addresses can be
    assigned.

    Raises:
        InvalidParameter, InvalidCombination: about the first violated rule.
    """
    given = requested.given()
    if guest_type is GuestType.L2:
        _refuse(given, "an L2 network has no addresses")
        return None
    if guest_type is GuestType.ISOLATED:
        _refuse(
            {name: given[name] for name in ("startip", "endip") if name in given}, "a Shared network has ranges"
        )
        if not given:
            network = IPv4Network(default_cidr, strict=False)
            return _subnet_of(network, network.network_address + 1)
        _need(given, ("gateway", "netmask"), "an Isolated network is given both or none of them")
        network, gateway = _network(given)
        return _subnet_of(network, gateway)
    _need(given, ("gateway", "netmask", "startip"), "a Shared network needs its range of addresses")
    network, gateway = _network(given)
    start = _inside(network, "startip", given["startip"])
    end = _end(network, given.get("endip", given["startip"]))
    if end < start:
        raise InvalidParameter("endip", str(end), f"it must be startip, {start}, or above")
    return Subnet(str(network), str(gateway), str(network.netmask), str(start), str(end))


def vlan_of(text: str) -> str:
    """Return the stored form of a VLAN in a call: its number, or ``untagged``.

    Raises:
        InvalidParameter: the text is neither a VLAN number nor ``untagged``.
    """
    match = VLAN.fullmatch(text)
    most = HIGHEST_VXLAN if text.lower().startswith("vxlan") else HIGHEST_VLAN
    if match is None or (match[2].isdigit() and not 1 <= int(match[2]) <= most):
        raise InvalidParameter("vlan", text, f"it must be a number from 1 to {HIGHEST_VLAN}, or {UNTAGGED}")
    return str(int(match[2])) if match[2].isdigit() else UNTAGGED


def vlan_ranges(written: str) -> list[tuple[int, int]]:
    """Return the first and last VLANs of ranges such as ``100-199``, separated by commas, in ascending order.

    Ranges that overlap or continue each other are returned as one.
    """
    parts = (part.strip().partition("-") for part in written.split(","))
    ranges: list[tuple[int, int]] = []
    for first, last in sorted(
        (int(first), int(last or first))
        for first, _, last in parts
        if first.isdigit() and (last or first).isdigit()
    ):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], last)
        else:
            ranges.append((first, last))
    return ranges


def free_vlan(ranges: Iterable[tuple[int, int]], is_taken: Callable[[int], bool]) -> str | None:
    """Return the first VLAN of these ranges that is not taken, or None."""
    vlans = (vlan for first, last in ranges for vlan in range(first, last + 1))
    return next((str(vlan) for vlan in vlans if not is_taken(vlan)), None)


def _subnet_of(network: IPv4Network, gateway: IPv4Address) -> Subnet:
    first, last = network.network_address + 1, network.broadcast_address - 1
    return Subnet(str(network), str(gateway), str(network.netmask), str(first), str(last))


def _network(given: dict[str, str]) -> tuple[IPv4Network, IPv4Address]:
    gateway = _address("gateway", given["gateway"])
    try:
        network = IPv4Network(f"{gateway}/{_address('netmask', given['netmask'])}", strict=False)
    except ValueError:
        raise InvalidParameter("netmask", given["netmask"], "it must be a netmask such as 255.255.255.0") from None
    if network.prefixlen > LONGEST_PREFIX or str(network.netmask) != given["netmask"]:
        raise InvalidParameter(
            "netmask",
            given["netmask"],
            f"it must be a netmask of at most {LONGEST_PREFIX} bits, such as 255.255.255.0",
        )
    _inside(network, "gateway", str(gateway))
    return network, gateway


def _inside(network: IPv4Network, parameter: str, text: str) -> IPv4Address:
    address = _address(parameter, text)
    if address not in network or address in (network.network_address, network.broadcast_address):
        raise InvalidParameter(parameter, text, f"it must be an address of a host in {network}")
    return address


def _end(network: IPv4Network, text: str) -> IPv4Address:
    """Return the last address of a range.

    Some clients (csbench) use the broadcast address as the end. No host can have that address, so the address
    before it is returned.
    """
    if _address("endip", text) == network.broadcast_address:
        return network.broadcast_address - 1
    return _inside(network, "endip", text)


def _address(parameter: str, text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError:
        raise InvalidParameter(parameter, text, "it must be an IPv4 address such as 10.1.0.17") from None


def _refuse(given: dict[str, str], why: str) -> None:
    for name in given:
        raise InvalidCombination((name, "networkofferingid"), f"{name} cannot be given here: {why}")


def _need(given: dict[str, str], names: tuple[str, ...], why: str) -> None:
    for name in names:
        if name not in given:
            raise InvalidCombination((name, "networkofferingid"), f"{name} is missing: {why}")
