"""Values of calls that are held to the same rules as those of inventory files."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from typing import TypeVar

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.services.inventory.inventory_catalog import TAGS
from bulkdeploy.services.inventory.inventory_document import Items, Refused, Scalar, Value

T = TypeVar("T")


def checked(parameter: str, written: str, value: Value[T]) -> T:
    """The value of a parameter.

    Raises:
        InvalidParameter: it breaks the rule.
    """
    try:
        return value.read(Scalar(0, written))
    except Refused as refused:
        raise InvalidParameter(parameter, written, refused.rule.partition(", not ")[0]) from refused


def checked_tags(parameter: str, written: Iterable[str]) -> list[str]:
    """Tags of hosts, pools and offerings, trimmed; an empty text means none.

    Raises:
        InvalidParameter: one breaks the rule of tags, or stands there twice.
    """
    tags = [tag.strip() for tag in written if tag.strip()]
    try:
        return list(TAGS.read(Items(0, [Scalar(0, tag) for tag in tags])))
    except Refused as refused:
        raise InvalidParameter(parameter, ",".join(tags), refused.rule) from refused


def subnet_of(gateway: str, netmask: str) -> IPv4Network:
    """The network of a gateway; both have been checked one by one."""
    return IPv4Network(f"{gateway}/{netmask}", strict=False)


def check_in_subnet(parameter: str, address: str, subnet: IPv4Network) -> None:
    """An address is one that a machine of the network may have.

    Raises:
        InvalidParameter: it is outside, or the network's first or last.
    """
    if not subnet.network_address < IPv4Address(address) < subnet.broadcast_address:
        raise InvalidParameter(parameter, address, f"it must be an address of the gateway's network {subnet}")


def check_order(start: str, end: str, parameter: str = "endip") -> None:
    """A range does not end before it begins.

    Raises:
        InvalidParameter: it does.
    """
    if IPv4Address(end) < IPv4Address(start):
        raise InvalidParameter(parameter, end, f"it must not be below startip {start}")
