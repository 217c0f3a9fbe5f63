"""Rules of security groups: the accepted traffic and the peer of each rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_network

from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter

HIGHEST_PORT, HIGHEST_ICMP_NUMBER, ANY_ICMP = 65535, 255, -1


class Direction(StrEnum):
    """The directions of the traffic to which a rule applies."""

    INGRESS = "ingress"
    EGRESS = "egress"


class Protocol(StrEnum):
    """The protocols that security group rules support."""

    TCP = "tcp"
    UDP = "udp"
    ICMP = "icmp"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic that a rule allows: ports of TCP and UDP, type and code of ICMP, or everything."""

    protocol: Protocol
    start_port: int | None = None
    end_port: int | None = None
    icmp_type: int | None = None
    icmp_code: int | None = None

    def check(self) -> None:
        """Check that all needed ports or ICMP numbers are given, are in range, and fit the protocol.

        Raises:
            InvalidParameter, InvalidCombination: about the first violated rule.
        """
        ports = {"startport": self.start_port, "endport": self.end_port}
        icmp = {"icmptype": self.icmp_type, "icmpcode": self.icmp_code}
        if self.protocol in (Protocol.TCP, Protocol.UDP):
            self._require(ports, 0, HIGHEST_PORT)
            self._refuse(icmp)
            if (self.start_port or 0) > (self.end_port or 0):
                raise InvalidParameter(
                    "endport", self.end_port, f"it must be startport, {self.start_port}, or more"
                )
        elif self.protocol is Protocol.ICMP:
            self._require(icmp, ANY_ICMP, HIGHEST_ICMP_NUMBER)
            self._refuse(ports)
        else:
            self._refuse({**ports, **icmp})

    def _require(self, numbers: dict[str, int | None], low: int, high: int) -> None:
        for name, value in numbers.items():
            if value is None:
                raise InvalidCombination(
                    ("protocol", name), f"protocol {self.protocol} needs {' and '.join(numbers)}"
                )
            if not low <= value <= high:
                raise InvalidParameter(name, value, f"it must be between {low} and {high}")

    def _refuse(self, numbers: dict[str, int | None]) -> None:
        for name, value in numbers.items():
            if value is not None:
                raise InvalidCombination(("protocol", name), f"{name} does not apply to protocol {self.protocol}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that allows traffic to or from a network in CIDR notation."""

    direction: Direction
    traffic: Traffic
    cidr: str


@dataclass(frozen=True, slots=True)
class PeerGroup:
    """Another security group in a rule, named by an account of the owner's domain and by the group's name."""

    account: str
    group: str


def check_cidrs(cidrs: Sequence[str]) -> None:
    """Check that texts are IPv4 or IPv6 networks in CIDR notation.

    Raises:
        InvalidParameter: names the first text that is not a network.
    """
    for cidr in cidrs:
        if not _is_cidr(cidr):
            raise InvalidParameter(
                "cidrlist", cidr, "it must be a network such as 10.0.0.0/8, more than one separated by commas"
            )


def _is_cidr(text: str) -> bool:
    if "/" not in text:
        return False
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True
