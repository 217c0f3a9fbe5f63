"""Guests, their volumes and their NICs, as driver calls specify them and as hypervisors report them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.domain.virtual_machines.firmware import BootMode
from bulkdeploy.drivers.hosts import HostAddress


class PowerState(StrEnum):
    """The power state of a guest, as its hypervisor reports it."""

    RUNNING = "Running"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """The specification of a volume: its size in bytes, its pool's uuid, and its template (root volume only).

    ``parameters`` are those of ``HypervisorDriver.device_parameters`` that its offering or its VM sets.
    ``was_made`` means that a guest had the volume before. A call that does not find such a volume fails
    (``lost_volume``), because a new volume in its place would hide the loss of its data. ``is_preallocated`` means
    that the driver allocates all space of a new empty volume immediately, if it can.
    """

    uuid: UUID
    name: str
    size_bytes: int
    pool_uuid: UUID
    template_uuid: UUID | None = None
    was_made: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_preallocated: bool = False


@dataclass(frozen=True, slots=True)
class NicSpec:
    """The specification of a NIC: its MAC and IP address (None: no address), its network's uuid and its VLAN.

    ``has_requested_ip`` and ``has_requested_mac`` mean that a caller chose the address. Other addresses were chosen
    by the service; a cloud that assigns addresses itself may replace them. ``label`` is the name of the physical
    network on hosts, such as a bridge's name. ``mtu`` is in bytes. ``parameters`` are like those of a volume.
    """

    uuid: UUID
    mac_address: str
    ip_address: str | None
    network_uuid: UUID
    vlan: str | None
    netmask: str | None = None
    gateway: str | None = None
    dns: tuple[str, ...] = ()
    label: str | None = None
    mtu: int | None = None
    is_default: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    has_requested_ip: bool = False
    has_requested_mac: bool = False


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """The specification of a guest.

    The CPU is in cores and MHz per core, the memory in MiB, and the user data in base64. ``user_data_details`` are
    values of variables in the user data, which are served as metadata. The password agent of the image sets
    ``password``, which is only in calls that start a guest. ``host_name`` is the name inside the guest (None:
    ``name``). ``template_variant`` is the variant of its template (None: the template has no variants).
    ``iso_uuid`` is the ISO in its drive (None: empty). ``uefi`` is the UEFI boot mode (None: BIOS).
    ``is_dynamically_scalable`` means that the guest may get more vCPUs and memory while it runs.
    """

    uuid: UUID
    name: str
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    volumes: tuple[VolumeSpec, ...]
    nics: tuple[NicSpec, ...]
    user_data: str | None = field(default=None, repr=False)
    user_data_details: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    public_keys: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)
    host_name: str | None = None
    template_variant: str | None = None
    iso_uuid: UUID | None = None
    uefi: BootMode | None = None
    is_dynamically_scalable: bool = False


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest as the hypervisor reports it. ``nic_uuids`` is None if the hypervisor does not store NICs' uuids.

    ``iso_uuid`` is the ISO in its drive, or None if the drive is empty or the hypervisor does not know.
    ``has_crashed`` means that its process or its host died without a shutdown or power-off; it is also False if the
    hypervisor does not record this.
    """

    uuid: UUID
    host_uuid: UUID
    power: PowerState
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    volume_uuids: frozenset[UUID] = field(default_factory=frozenset)
    nic_uuids: frozenset[UUID] | None = None
    iso_uuid: UUID | None = None
    has_crashed: bool = False


@dataclass(frozen=True, slots=True)
class GuestCheck:
    """A health check of a guest that runs on ``host``. ``address`` is the guest's IP address, or None."""

    host: HostAddress
    guest_uuid: UUID
    address: str | None
    check: HealthCheck
