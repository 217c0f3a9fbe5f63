"""Hosts, and machines that are to be hosts: how they are reached, what they may promise, what they have."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class HostAddress:
    """The address of a host for calls.

    The host's uuid (its key), name, IP address, hypervisor type and the url of addHost.

    ``url`` None: an inventory brought the host without one. It names secrets (users, key files), and never is one.
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
    """The access to a machine that becomes a host: its url, and the login; the password is never kept."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HostPromise:
    """The limits of a host's promises to guests: factors of its CPU and its memory, and the number of guests."""

    cpu_overcommit: Decimal
    memory_overcommit: Decimal
    guests_limit: int


@dataclass(frozen=True, slots=True)
class NewHost:
    """A machine that is to be a host: the uuid it is known by from now on, and its hypervisor type.

    ``cluster_hardware``: the ``HostModel.guest_hardware`` of the other hosts of its cluster, each once.
    """

    uuid: UUID
    hypervisor: str
    access: HostAccess
    promise: HostPromise
    cluster_hardware: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostModel:
    """The hardware that a host reports: physical cores, MHz of one, MiB.

    Bytes of its own disks for volumes (0: none).

    ``guest_hardware``: what the hardware of its guests can be, in words that only its driver reads; None: any.
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
