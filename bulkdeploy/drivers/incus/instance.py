"""Instances in the format of Incus, written for a guest and read again (one file: writer and reader agree).

Keys ``user.bulkdeploy.*`` store what Incus has no field for. An instance that must not run has a gate: a NIC whose
parent does not exist on any member, so that Incus cannot start the instance (docs/adr/0047-incus-is-the-lock.md).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from bulkdeploy.domain.units import MIB
from bulkdeploy.drivers.guests import Guest, GuestSpec, NicSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.incus.guest_data import cloud_init_keys
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.sizes import read_cpus, read_memory, read_size

KEY = "user.bulkdeploy."
PROTECTION = "security.protection.delete"
LAST_POWER = "volatile.last_state.power"
"""A key that only instances have that were started once."""

GATE = "gate"
CLOSED = {"type": "nic", "nictype": "physical", "parent": "not-to-run"}
ROOT = "root"
VOLUME, NIC = "volume-", "nic-"
CONTAINER, VIRTUAL_MACHINE = "container", "virtual-machine"
RUNNING = ("Running", "Ready", "Frozen", "Thawed", "Starting", "Stopping", "Freezing", "Aborting")
"""The states of instances that may have processes. A guest reports itself as Ready over /dev/incus/sock."""

UNSEEN = ("Error", "Unknown", "")
"""The states of instances whose member does not answer or cannot read the state."""

UUID_PATTERN = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume in Incus: its uuid, its pool's uuid, Incus's name of the pool, and its size in bytes.

    ``member`` is the member that stores the volume, or None if all members can access it.
    """

    uuid: UUID
    pool_uuid: UUID
    incus_pool: str
    size_bytes: int
    member: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of the service.

    Attributes:
        member: the member that has the instance, or None if the server is not clustered.
        status: Incus's name of the instance's state.
        kind: container or virtual-machine.
        etag: the tag with which a change is compared, or an empty text if the instance was read from a list.
        definition: the properties that a request to change the instance contains.
        fence: the fence of the last call that changed the instance.
        sizes: the number of CPUs, MHz of each CPU, and MiB of memory; 0 for unknown values.
        root: the root volume, or None for a guest without volumes.
    """

    uuid: UUID
    member: str | None
    status: str
    kind: str
    etag: str
    definition: Mapping[str, Any]
    fence: int
    sizes: tuple[int, int, int]
    root: Volume | None

    @property
    def config(self) -> Mapping[str, str]:
        """The configuration keys of the instance."""
        return self.definition["config"]  # type: ignore[no-any-return]

    @property
    def devices(self) -> Mapping[str, Mapping[str, str]]:
        """The devices of the instance."""
        return self.definition["devices"]  # type: ignore[no-any-return]

    @property
    def runs(self) -> bool:
        """True if the instance may have processes."""
        return self.status in RUNNING

    @property
    def is_seen(self) -> bool:
        """True if the instance's member reported its state."""
        return self.status not in UNSEEN

    @property
    def is_gated(self) -> bool:
        """True if the instance has a gate, so that Incus cannot start it."""
        return GATE in self.devices

    @property
    def data_volumes(self) -> frozenset[UUID]:
        """The uuids of the data volumes that are attached to the instance."""
        return _uuids(VOLUME, self.devices)

    @property
    def nics(self) -> frozenset[UUID]:
        """The uuids of the instance's NICs."""
        return _uuids(NIC, self.devices)

    def guest(self, host_uuid: UUID) -> Guest:
        """Return the guest as drivers report it. An instance whose state is unknown counts as running."""
        return Guest(
            self.uuid,
            host_uuid,
            PowerState.RUNNING if self.runs or not self.is_seen else PowerState.STOPPED,
            *self.sizes,
            self.data_volumes | (frozenset() if self.root is None else {self.root.uuid}),
            self.nics,
        )


def instance_name(guest_uuid: UUID) -> str:
    """Return the name of a guest's instance. The prefix is needed because names must begin with a letter."""
    return f"vm-{guest_uuid}"


def guest_of(name: str) -> UUID | None:
    """Return the uuid of the guest with this instance name.

    Returns None if the name is not one that the service gives to instances.
    """
    found = re.fullmatch(f"vm-({UUID_PATTERN})", name)
    return None if found is None else UUID(found[1])


def read_instance(row: Mapping[str, Any], etag: str = "") -> Instance | None:
    """Return an instance from a row of the API, or None if it does not belong to this service.

    Raises:
        KeyError, ValueError: the service's keys or the root disk were changed by hand.
    """
    config = row.get("config") or {}
    if f"{KEY}uuid" not in config:
        return None
    definition = {
        key: row[key]
        for key in ("architecture", "config", "devices", "ephemeral", "profiles", "stateful", "description")
        if key in row
    }
    member = read_location(row)
    sizes = (
        read_cpus(config.get("limits.cpu", "")),
        int(config.get(f"{KEY}mhz", 0)),
        read_memory(config.get("limits.memory", "")) // MIB,
    )
    return Instance(
        UUID(config[f"{KEY}uuid"]),
        member,
        row["status"],
        row["type"],
        etag,
        definition,
        int(config.get(f"{KEY}fence", 0)),
        sizes,
        _read_root(config, row["devices"], member),
    )


def _read_root(
    config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]], member: str | None
) -> Volume | None:
    named = config.get(f"{KEY}root")
    if not named:
        return None
    uuid, pool_uuid = named.split()
    disk = devices[ROOT]
    return Volume(UUID(uuid), UUID(pool_uuid), disk["pool"], read_size(disk["size"]), member)


def _uuids(kind: str, devices: Iterable[str]) -> frozenset[UUID]:
    """Return the uuids in the names of the service's devices of a kind. Other devices are ignored."""
    found = (re.fullmatch(f"{kind}({UUID_PATTERN})", name) for name in devices)
    return frozenset(UUID(one[1]) for one in found if one is not None)


def gated(found: Instance, fence: int) -> dict[str, Any]:
    """Return the definition of an instance with its gate, its root disk and no other devices.

    The instance cannot be started, and may be deleted.
    """
    config = {**found.config, f"{KEY}fence": str(fence), PROTECTION: "false"}
    devices = {ROOT: found.devices[ROOT]} if ROOT in found.devices else {}
    return {**found.definition, "config": config, "devices": {**devices, GATE: CLOSED}}


def opened(
    found: Instance, guest: GuestSpec, volumes: Iterable[Volume], fence: int, options: IncusOptions
) -> dict[str, Any]:
    """Return the definition with which the instance of a guest can be started.

    Args:
        found: the instance.
        guest: the guest's specification.
        volumes: the data volumes of the guest.
        fence: the fence of the call.
        options: the driver's options.
    """
    devices = devices_of(found, guest, volumes, options)
    # Incus names the interfaces of containers itself; those of virtual machines are named by the guest.
    names = (
        {nic.uuid: devices[f"{NIC}{nic.uuid}"]["name"] for nic in guest.nics} if found.kind == CONTAINER else None
    )
    config = {**found.config, **limits(guest), **cloud_init_keys(guest, names, options), PROTECTION: "true"}
    config |= {f"{KEY}fence": str(fence), f"{KEY}name": guest.name}
    return {**found.definition, "config": config, "devices": devices}


def limits(guest: GuestSpec) -> dict[str, str]:
    """Return the configuration keys of a guest's sizes. The MHz are stored in the service's own key."""
    return {
        "limits.cpu": str(guest.cpu_number),
        "limits.memory": f"{guest.memory_mib}MiB",
        f"{KEY}mhz": str(guest.cpu_mhz),
    }


def devices_of(
    found: Instance, guest: GuestSpec, volumes: Iterable[Volume], options: IncusOptions
) -> dict[str, Any]:
    """Return the devices of a guest. Existing devices are not changed, except that the root disk may grow."""
    devices: dict[str, Any] = {}
    if guest.volumes:
        root = found.devices[ROOT]
        size = max(read_size(root["size"]), guest.volumes[0].size_bytes)
        devices[ROOT] = {**root, "size": f"{size}B"}
    for volume in volumes:
        where = {"path": f"/mnt/{volume.uuid}"} if found.kind == CONTAINER else {}
        devices[f"{VOLUME}{volume.uuid}"] = {
            "type": "disk", "pool": volume.incus_pool, "source": str(volume.uuid), **where,
        }  # fmt: skip
    names = {device.get("name") for key, device in found.devices.items() if key.startswith(NIC)}
    free = (f"eth{number}" for number in range(len(names) + len(guest.nics)) if f"eth{number}" not in names)
    for nic in guest.nics:
        known = found.devices.get(f"{NIC}{nic.uuid}")
        devices[f"{NIC}{nic.uuid}"] = known or {**_nic(nic, options), "name": next(free)}
    return devices


def _nic(nic: NicSpec, options: IncusOptions) -> dict[str, str]:
    network = options.network.format(label=nic.label or options.default_label, vlan=nic.vlan or "")
    device = {"type": "nic", "hwaddr": nic.mac_address}
    if nic.mtu is not None:
        device["mtu"] = str(nic.mtu)
    if options.network_kind == "bridge":
        return {**device, "nictype": "bridged", "parent": network}
    address = {} if nic.ip_address is None else {"ipv4.address": nic.ip_address}
    return {**device, "network": network, **address}


def new_instance(
    guest: GuestSpec,
    kind: str,
    source: Mapping[str, Any],
    incus_pool: str | None,
    fence: int,
    options: IncusOptions,
) -> dict[str, Any]:
    """Return the request that creates an instance with a gate."""
    config = {f"{KEY}uuid": str(guest.uuid), f"{KEY}fence": str(fence), f"{KEY}name": guest.name, **limits(guest)}
    devices: dict[str, Any] = {GATE: CLOSED}
    if guest.volumes:
        root = guest.volumes[0]
        config[f"{KEY}root"] = f"{root.uuid} {root.pool_uuid}"
        devices[ROOT] = {"type": "disk", "path": "/", "pool": incus_pool, "size": f"{root.size_bytes}B"}
    return {
        "name": instance_name(guest.uuid),
        "type": kind,
        "source": source,
        "profiles": list(options.profiles),
        "config": config,
        "devices": devices,
    }


def new_volume(volume: VolumeSpec, kind: str) -> dict[str, Any]:
    """Return the request that creates a data volume: a file system for containers, a disk for virtual machines."""
    return {
        "name": str(volume.uuid),
        "type": "custom",
        "content_type": "filesystem" if kind == CONTAINER else "block",
        "config": {"size": f"{volume.size_bytes}B", f"{KEY}pool": str(volume.pool_uuid), f"{KEY}name": volume.name},
    }


def read_volume(row: Mapping[str, Any], incus_pool: str) -> Volume | None:
    """Return a data volume from a row of the API.

    Returns None for volumes that do not belong to this service, and for snapshots (``VOLUME/SNAPSHOT``).
    """
    config = row.get("config") or {}
    if row.get("type") != "custom" or f"{KEY}pool" not in config or "/" in row["name"]:
        return None
    size, pool_uuid = read_size(config["size"]), UUID(config[f"{KEY}pool"])
    return Volume(UUID(row["name"]), pool_uuid, incus_pool, size, read_location(row))


def read_location(row: Mapping[str, Any]) -> str | None:
    """Return the member that has an object.

    Returns None if the server is not clustered or if all members can access the object.
    """
    location = row.get("location")
    return None if location in ("", "none") else location
