"""URLs of libvirt hosts, restricted to a list of allowed transports and parameters.

libvirt's own URLs can start programs on the machine that opens them (``qemu+ext``, ``command=``, ``netcat=``,
``proxy=``) and can switch off the verification of the other side. A caller's text is therefore never passed to
libvirt: this module parses it into a ``LibvirtUrl`` and rejects everything that it does not know, and libvirt gets
a URL that is written from the parts.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from urllib.parse import parse_qsl, quote, urldefrag, urlencode, urlsplit

from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.security.network_addresses import Address, read_address

EXAMPLE = "such as qemu+ssh://root@kvm1/system"
DRIVER = "qemu"
LOCAL, SSH, ENCRYPTED = "unix", "ssh", "tls"
DAEMONS = ("/system", "/session")
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
"""The pattern of host names. A name that begins with a dash would be an option of ssh."""

USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
PARAMETERS = {LOCAL: "socket", SSH: "keyfile", ENCRYPTED: "pkipath"}
"""The one query parameter that each transport accepts; every other parameter is rejected."""


class HostUrlError(ValueError):
    """Raised for a URL that no host may have. The text names the violated rule and never a password."""


@dataclass(frozen=True, slots=True)
class LibvirtUrl:
    """The parts of a host's URL after validation."""

    transport: str
    host: str | None
    port: int | None
    user: str | None
    daemon: str
    file: Path | None
    verifies: bool = True

    def write(self) -> str:
        """Return the URL for libvirt."""
        query: dict[str, str] = {} if self.file is None else {PARAMETERS[self.transport]: str(self.file)}
        if self.transport == SSH:
            query["no_tty"] = "1"
        if not self.verifies:
            query["no_verify"] = "1"
        user = "" if self.user is None else f"{self.user}@"
        host = f"[{self.host}]" if self.host is not None and ":" in self.host else self.host or ""
        port = "" if self.port is None else f":{self.port}"
        written = f"?{urlencode(query, safe='/', quote_via=quote)}" if query else ""
        return f"{DRIVER}+{self.transport}://{user}{host}{port}{self.daemon}{written}"


def read_host_url(url: str, options: LibvirtOptions) -> LibvirtUrl:
    """Parse the URL of a host. A fragment after ``#`` is the host's name and is ignored.

    Raises:
        HostUrlError: the transport is not allowed, a parameter is unknown, or a file is outside its directory.
    """
    try:
        parts = urlsplit(urldefrag(url).url)
        port, password, host = parts.port, parts.password, parts.hostname
    except ValueError:
        raise HostUrlError(f"the url must be a URL of libvirt, {EXAMPLE}") from None
    driver, _, transport = parts.scheme.partition("+")
    if driver != DRIVER:
        raise HostUrlError(f"the url must be a URL of libvirt, {EXAMPLE}")
    if password is not None:
        raise HostUrlError("the url must not contain a password: name a key file (keyfile=) or use TLS")
    transport = transport or (ENCRYPTED if parts.netloc else LOCAL)
    if transport not in options.transports:
        allowed = ", ".join(options.transports)
        raise HostUrlError(f"the transport of the url must be one of {allowed} (driver.libvirt.transports)")
    if parts.path not in DAEMONS:
        raise HostUrlError(f"the path of the url must be {' or '.join(DAEMONS)}")
    _check_place(transport, parts.netloc, host, parts.username)
    file = _read_file(transport, parts.query, options)
    verifies = options.verify_hosts or transport not in (SSH, ENCRYPTED)
    return LibvirtUrl(transport, host, port, parts.username, parts.path, file, verifies)


def _check_place(transport: str, place: str, host: str | None, user: str | None) -> None:
    if transport == LOCAL:
        if place:
            raise HostUrlError("a url of transport unix must name no host, such as qemu+unix:///system")
        return
    if host is None:
        raise HostUrlError(f"the url must name a host, {EXAMPLE}")
    if not _is_ipv6(host) and not HOST_NAME.fullmatch(host):
        raise HostUrlError("the host of the url must be a host name or an IP address")
    address = read_address(host)
    if host.lower() == "localhost" or (address is not None and not is_of_host(address)):
        raise HostUrlError("the host of the url must not be this machine: use transport unix for a local daemon")
    if user is not None and (transport != SSH or not USER_NAME.fullmatch(user)):
        raise HostUrlError("the user of the url must be a valid user name, and only transport ssh allows one")


def is_of_host(address: Address) -> bool:
    """Return False for addresses that no host can have: loopback, link-local, multicast and unspecified ones."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    found = mapped or address
    return not (found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified)


def _is_ipv6(host: str) -> bool:
    try:
        return IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _read_file(transport: str, query: str, options: LibvirtOptions) -> Path | None:
    """Return the path in the query of a URL, or None if the URL has no query.

    Raises:
        HostUrlError: the parameter is not allowed for the transport, or the path is outside its directory.
    """
    known = PARAMETERS.get(transport)
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise HostUrlError("the query of the url must be NAME=VALUE") from None
    if [name for name, _ in given] not in ([], [known]):
        rule = "no parameter" if known is None else f"no other parameter than {known}"
        raise HostUrlError(f"a url of transport {transport} accepts {rule}")
    if not given:
        return None
    ((name, value),) = given
    if transport == LOCAL:
        directories, setting = options.socket_directories, "socket_directories"
    else:
        directories, setting = (options.key_directory,), "key_directory"
    path = Path(value)
    if path.is_absolute():
        path = path.resolve()
        if any(directory.resolve() in path.parents for directory in directories):
            return path
    raise HostUrlError(f"{name} of the url must be below the directory that driver.libvirt.{setting} names")
