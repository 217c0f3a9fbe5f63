"""Hosts, and machines that are to become hosts: their addresses, limits and hardware."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class HostAddress:
    """The address of a host for driver calls.

    It consists of the host's uuid (its key), name, IP address, hypervisor type and the url of addHost. ``url`` is
    None if an inventory added the host without one. It may name secrets (users, key files), but contains none.
    """

    uuid: UUID
    name: str
    ip_address: str
    hypervisor: str
    url: str | None = None


def address_of(host: Any) -> HostAddress:
    """Return the address of a host, from a row with columns of these names."""
    return HostAddress(host.uuid, host.name, host.ip_address, host.hypervisor, host.url)


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The access to a machine that becomes a host: its url and the login. The password is never stored."""

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

    ``cluster_hardware`` has the different values of ``HostModel.guest_hardware`` of the other hosts of its cluster.
    """

    uuid: UUID
    hypervisor: str
    access: HostAccess
    promise: HostPromise
    cluster_hardware: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostModel:
    """The hardware that a host reports: physical cores, MHz per core, memory in MiB, and bytes of local disks.

    The local disks are for volumes; 0 means that there are none. ``guest_hardware`` describes the hardware that its
    guests can have, in a format that only its driver reads. None means any hardware.
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
