"""The rules of values: one vocabulary for parameters of calls, entries of zone files and settings."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bulkdeploy.domain.accounts.accounts import NETWORK_DOMAIN as DNS_DOMAIN

LONGEST_NAME = 255
UNLIMITED = "unlimited"
WHOLE = re.compile(r"[0-9]{1,19}", re.ASCII)
SIZE = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,3}))? ?(PiB|TiB|GiB|MiB|KiB|B)", re.ASCII)
POSITIVE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?", re.ASCII)
UNITS = {"PiB": 1024**5, "TiB": 1024**4, "GiB": 1024**3, "MiB": 1024**2, "KiB": 1024, "B": 1}
NAMES_OF_APIS = re.compile(r"[A-Za-z0-9*]{1,255}", re.ASCII)
VARIANT = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,62}", re.ASCII)
BMC_ADDRESS_FORM = re.compile(
    r"(?![-.])[A-Za-z0-9.-]{1,253}(?<![-.])(/[A-Za-z0-9._-]{1,63})?|[0-9A-Fa-f:]{2,45}(/[A-Za-z0-9._-]{1,63})?",
    re.ASCII,
)
"""A DNS name, or an IPv4 or IPv6 address, and a system behind it. None begins as an option of a program does."""

BMC_USER_FORM = re.compile(r"[!-~]{1,64}", re.ASCII)
HOST_LABEL = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueRule:
    """A rule for a text.

    Attributes:
        must: the rule in words, such as ``must be an IPv4 address``.
        read: returns the text as it is stored, or None if the text violates the rule.
        show: returns the part of a rejected text that an error may contain.
    """

    must: str
    read: Callable[[str], str | None]
    show: Callable[[str], str] = str


def _if(holds: Callable[[str], bool]) -> Callable[[str], str | None]:
    return lambda written: written if holds(written) else None


def _address(written: str) -> str | None:
    try:
        return str(IPv4Address(written))
    except AddressValueError:
        return None


def _network(written: str) -> str | None:
    try:
        return str(IPv4Network(written)) if "/" in written else None
    except (AddressValueError, NetmaskValueError, ValueError):
        return None


def _is_network_of_address(written: str) -> bool:
    try:
        IPv4Network(written, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError):
        return False
    return "/" in written


def _netmask(written: str) -> str | None:
    try:
        network = IPv4Network(f"0.0.0.0/{written}")
    except (AddressValueError, NetmaskValueError, ValueError):
        return None
    return written if str(network.netmask) == written else None


def _is_name(written: str) -> bool:
    return 0 < len(written) <= LONGEST_NAME and written == written.strip() and "\n" not in written


def _is_tag(written: str) -> bool:
    return 0 < len(written) <= LONGEST_NAME and "," not in written and written == written.strip()


def _tags(written: str) -> str | None:
    tags = [tag.strip() for tag in written.split(",") if tag.strip()]
    return ",".join(tags) if len(set(tags)) == len(tags) and all(map(_is_tag, tags)) else None


def _is_url(written: str) -> bool:
    try:
        parts = urlsplit(written)
        names_something = bool(parts.hostname or parts.path.strip("/"))
        is_written_well = "://" in written and written == "".join(written.split()) and parts.port != 0
    except ValueError:
        return False
    return bool(parts.scheme) and names_something and is_written_well and parts.password is None


def _without_login(written: str) -> str:
    """Return the text of a rejected URL for an error: only its scheme if the URL can contain a password."""
    if "@" not in written:
        return written
    scheme, separator, _ = written.partition("://")
    return f"{scheme}://..." if separator and scheme.isalnum() else "..."


def _time_zone(written: str) -> str | None:
    try:
        return str(ZoneInfo(written))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _hidden(_: str) -> str:
    return "(not shown)"


NAME = ValueRule(
    f"must be a name: 1 to {LONGEST_NAME} characters in one line, no spaces around it",
    _if(_is_name),
)
ROLE_NAME = ValueRule(
    f"must be a name: 1 to {LONGEST_NAME} characters in one line, not only spaces",
    _if(lambda written: _is_name(written.strip()) and len(written) <= LONGEST_NAME and "\n" not in written),
)
DOMAIN_NAME = ValueRule(
    f"must be a name: 1 to {LONGEST_NAME} characters in one line, no spaces around it, no /",
    _if(lambda written: _is_name(written) and "/" not in written),
)
NETWORK_DOMAIN = ValueRule(
    "must be a DNS domain: labels of letters, digits and hyphens with dots between, at most 190 characters",
    _if(lambda written: bool(DNS_DOMAIN.fullmatch(written))),
)
HOST_NAME = ValueRule(
    "must be a host name: a letter, then letters, digits and hyphens, at most 63, no hyphen at the end",
    _if(lambda written: bool(HOST_LABEL.fullmatch(written))),
)
VARIANT_NAME = ValueRule(
    "must be the name of a variant: 1 to 63 letters, digits, dots, hyphens and underscores, the first no hyphen",
    _if(lambda written: bool(VARIANT.fullmatch(written))),
)
IP_ADDRESS = ValueRule("must be an IPv4 address", _address)
CIDR = ValueRule("must be an IPv4 network such as 10.1.0.0/16", _network)
CIDR_OF_ADDRESS = ValueRule(
    "must be an IPv4 network such as 10.1.1.0/24, host bits allowed", _if(_is_network_of_address)
)
BMC_ADDRESS = ValueRule(
    "must be an IP address or a DNS name, for Redfish also with the name of a system, such as 10.1.0.5/node2",
    _if(lambda written: bool(BMC_ADDRESS_FORM.fullmatch(written))),
)
BMC_USER = ValueRule(
    "must be 1 to 64 printable ASCII characters without spaces",
    _if(lambda written: bool(BMC_USER_FORM.fullmatch(written))),
)
PORT = ValueRule(
    "must be a port from 1 to 65535",
    _if(lambda written: bool(WHOLE.fullmatch(written)) and 0 < int(written) < 65536),
)
NETMASK = ValueRule("must be a netmask such as 255.255.0.0", _netmask)
TAG = ValueRule(
    "must be a tag: 1 to 255 characters without commas, no spaces around it",
    lambda written: written.strip() if _is_tag(written.strip()) else None,
)
TAGS = ValueRule("must be tags of 1 to 255 characters, separated by commas, each once", _tags)
API_PATTERN = ValueRule(
    "must be the name of an API; * stands for any letters",
    _if(lambda written: bool(NAMES_OF_APIS.fullmatch(written))),
)
URL = ValueRule(
    "must be a url such as http://10.1.1.5 or nfs://10.1.1.9/export/primary,"
    " without a password, which has its own parameter",
    _if(_is_url),
    _without_login,
)

STORAGE_URL = ValueRule(
    "must be a url such as nfs://10.1.1.9/export/primary or rbd://USER:SECRET@10.1.1.9/pool",
    _if(lambda written: written.lower().startswith("rbd://") or _is_url(written)),
    URL.show,
)

TIME_ZONE = ValueRule("must be a time zone such as Europe/Berlin or UTC", _time_zone)
PASSWORD = ValueRule("must be a password that is not blank", _if(lambda written: bool(written.strip())), _hidden)
PASSWORD_HASH = ValueRule(
    "must be an argon2id hash, as in exports", _if(lambda written: written.startswith("$argon2id$")), _hidden
)
KEY = ValueRule(
    "must be a key: 1 to 255 characters without blanks",
    _if(lambda written: bool(written) and written == "".join(written.split())),
    _hidden,
)

LIMIT = ValueRule(
    "must be unlimited, a whole number, or a size such as 20 TiB",
    _if(
        lambda written: (
            written == UNLIMITED or bool(WHOLE.fullmatch(written)) or SIZE.fullmatch(written) is not None
        )
    ),
)


def _positive(written: str) -> bool:
    return POSITIVE.fullmatch(written) is not None and float(written) > 0


POSITIVE_NUMBER = ValueRule("must be a number above 0, such as 0.01", _if(_positive))


def size_in(written: str, unit: int) -> int | None:
    """Convert a size such as ``1.5 TiB`` to the number of units of ``unit`` bytes.

    Returns None if the text is not a size, or not a whole number of units.
    """
    found = SIZE.fullmatch(written)
    if found is None:
        return None
    digits, decimals, word = found.groups(default="")
    amount, rest = divmod(int(digits + decimals) * UNITS[word], unit * 10 ** len(decimals))
    return amount if rest == 0 else None


def size_text(size_bytes: int) -> str:
    """Return a text for a size in the largest unit of which it is a whole number, such as ``1536 GiB``."""
    unit = next(word for word, bytes_ in UNITS.items() if size_bytes % bytes_ == 0) if size_bytes else "B"
    return f"{size_bytes // UNITS[unit]} {unit}"
