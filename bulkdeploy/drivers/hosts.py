"""Data types for hosts and for machines that become hosts: addresses, limits and hardware."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class HostAddress:
    """The address of a host for driver calls.

    The fields are the host's uuid, which is its key, its name, IP address and hypervisor type, and the url of
    addHost. ``url`` is None if an inventory added the host without a url. The url may name users and key files but
    contains no secrets.
    """

    uuid: UUID
    name: str
    ip_address: str
    hypervisor: str
    url: str | None = None


def address_of(host: Any) -> HostAddress:
    """Return the address of a host from a database row with columns of the same names."""
    return HostAddress(host.uuid, host.name, host.ip_address, host.hypervisor, host.url)


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The URL and the login of a machine that becomes a host. The password is never stored."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HostPromise:
    """The limits of a host for guests: its CPU and memory over-commit factors, and the number of guests."""

    cpu_overcommit: Decimal
    memory_overcommit: Decimal
    guests_limit: int


@dataclass(frozen=True, slots=True)
class NewHost:
    """A machine that becomes a host, with its new uuid and its hypervisor type.

    ``cluster_hardware`` contains the distinct values of ``HostModel.guest_hardware`` of the other hosts in its
    cluster.
    """

    uuid: UUID
    hypervisor: str
    access: HostAccess
    promise: HostPromise
    cluster_hardware: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostModel:
    """The hardware that a host reports.

    ``cpu_cores`` counts physical cores, ``cpu_mhz`` is per core, ``memory_mib`` is in MiB. ``local_disk_bytes`` is
    the space on local disks for volumes; 0 means that the host has no such disks. ``guest_hardware`` describes the
    hardware that guests on the host can have, in a format that only its driver reads. None means any hardware.
    """

    name: str
    ip_address: str
    cpu_sockets: int
    cpu_cores: int
    cpu_mhz: int
    memory_mib: int
    local_disk_bytes: int
    hypervisor_version: str | None = None
    guest_hardware: str | None = None
