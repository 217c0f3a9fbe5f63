"""The hardware of a simulated machine, which an operator describes by its URL.

``http://any/path`` is a host of the size of the hosts in CloudStack's own simulator. The query of the URL changes
the size: ``http://rack1/host7?cpu_cores=64&cpu_mhz=2500&memory_mib=262144``. The host's name consists of the URL's
host and path; ``http://10.0.1.7/host7`` is ``host7``. A pool has 1 TiB, or the size in ``?size_gib=``.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address
from urllib.parse import parse_qsl, urlsplit

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostModel, NewHost

HOST_SIZE = {"cpu_sockets": 1, "cpu_cores": 4, "cpu_mhz": 8000, "memory_mib": 8192, "local_disk_gib": 1024}
HOST_MOST = {
    "cpu_sockets": 256,
    "cpu_cores": 4096,
    "cpu_mhz": 100_000,
    "memory_mib": 64 * 1024 * 1024,
    "local_disk_gib": 1024 * 1024,
}
POOL_SIZE = {"size_gib": 1024}
POOL_MOST = {"size_gib": 1024 * 1024 * 1024}
MAY_BE_ZERO = frozenset({"local_disk_gib"})
GIB = 1024**3
LONGEST_NAME = 63


def read_host(host: NewHost) -> HostModel | DriverError:
    """Return the hardware that a host's URL describes, or an error for invalid sizes.

    A URL without an IPv4 address gets an address of the loopback network, which no real host has.
    """
    try:
        size = _host_sizes(host.access.url.partition("?")[2].partition("#")[0])
    except DriverError as error:
        return error
    parts = urlsplit(host.access.url)
    written, path = parts.hostname or "", parts.path.strip("/")
    address = _address(written)
    return HostModel(
        name=_name(path if path and address else f"{written}/{path}"),
        ip_address=address or str(IPv4Address(0x7F000000 | host.uuid.int & 0xFFFFFF)),
        cpu_sockets=size["cpu_sockets"],
        cpu_cores=size["cpu_cores"],
        cpu_mhz=size["cpu_mhz"],
        memory_mib=size["memory_mib"],
        local_disk_bytes=size["local_disk_gib"] * GIB,
        hypervisor_version="simulated",
    )


def read_pool_url(url: str) -> int:
    """Return the size of the pool with this URL, in bytes.

    Raises:
        DriverError: the query contains an invalid size.
    """
    return _sizes(urlsplit(url).query, POOL_SIZE, POOL_MOST)["size_gib"] * GIB


@lru_cache
def _host_sizes(query: str) -> Mapping[str, int]:
    """Return the sizes in the query of a host's URL.

    Results are cached, because many hosts have the same query.
    """
    return _sizes(query, HOST_SIZE, HOST_MOST)


def _sizes(query: str, defaults: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    sizes = dict(defaults)
    for key, written in parse_qsl(query, keep_blank_values=True):
        least = 0 if key in MAY_BE_ZERO else 1
        if key not in defaults:
            raise _refused(f"unknown size {key[:40]}; the sizes are {', '.join(defaults)}")
        if not re.fullmatch(r"[0-9]{1,10}", written, re.ASCII) or not least <= int(written) <= most[key]:
            raise _refused(f"{key} must be a whole number from {least} to {most[key]}, not {written[:40]!r}")
        sizes[key] = int(written)
    return sizes


def _refused(reason: str) -> DriverError:
    return DriverError("connect", "simulated", reason, transient=False)


def _name(place: str) -> str:
    """Return a host name of letters, digits and hyphens that begins with a letter."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", place).strip("-")
    return (words if words[:1].isalpha() else f"host-{words}")[:LONGEST_NAME].strip("-")


def _address(host: str) -> str | None:
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        return None
