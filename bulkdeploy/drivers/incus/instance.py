"""Instances in the format of Incus: written for a guest, and read again.

What Incus has no place for stands in ``user.bulkdeploy.*``. An instance that is not to run has a gate: a nic whose
parent no member has, so that Incus refuses to start it (docs/adr/0047-incus-is-the-lock.md).
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
"""Key of instances that were started once."""

GATE = "gate"
CLOSED = {"type": "nic", "nictype": "physical", "parent": "not-to-run"}
ROOT = "root"
VOLUME, NIC = "volume-", "nic-"
CONTAINER, VIRTUAL_MACHINE = "container", "virtual-machine"
RUNNING = ("Running", "Ready", "Frozen", "Thawed", "Starting", "Stopping", "Freezing", "Aborting")
"""States of instances that may have processes; a guest says itself, over /dev/incus/sock, that it is Ready."""

UNSEEN = ("Error", "Unknown", "")
"""States of instances whose member does not answer, or cannot tell."""

UUID_PATTERN = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume in Incus: our pool's uuid and Incus's pool, its size in bytes, and its member if it has one."""

    uuid: UUID
    pool_uuid: UUID
    incus_pool: str
    size_bytes: int
    member: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of the service.

    Attributes:
        member: that has it; None: there is one server only.
        etag: what it must still be to be changed; empty where it came from a list.
        status: Incus's word for what it does.
        kind: container or virtual-machine.
        definition: what is sent back to change it.
        fence: that it was changed with last.
        sizes: CPUs, MHz of each, and MiB of memory; 0 where nothing says it.
        root: its root volume; None: of a guest without volumes.
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
        """Return whether the instance has processes."""
        return self.status in RUNNING

    @property
    def is_seen(self) -> bool:
        """Return whether the instance's member reported its state."""
        return self.status not in UNSEEN

    @property
    def is_gated(self) -> bool:
        """Return whether the instance is prevented from being started."""
        return GATE in self.devices

    @property
    def data_volumes(self) -> frozenset[UUID]:
        """The uuids of the data volumes that are attached to the instance."""
        return _uuids(VOLUME, self.devices)

    @property
    def nics(self) -> frozenset[UUID]:
        """The uuids of the instance's nics."""
        return _uuids(NIC, self.devices)

    def guest(self, host_uuid: UUID) -> Guest:
        """Return the guest in the form of drivers. An instance whose member is silent counts as running."""
        return Guest(
            self.uuid,
            host_uuid,
            PowerState.RUNNING if self.runs or not self.is_seen else PowerState.STOPPED,
            *self.sizes,
            self.data_volumes | (frozenset() if self.root is None else {self.root.uuid}),
            self.nics,
        )


def instance_name(guest_uuid: UUID) -> str:
    """Return the instance of a guest; names must begin with a letter."""
    return f"vm-{guest_uuid}"


def guest_of(name: str) -> UUID | None:
    """Return the uuid of the guest with this instance name.

    Returns None if the instance does not belong to the service.
    """
    found = re.fullmatch(f"vm-({UUID_PATTERN})", name)
    return None if found is None else UUID(found[1])


def read_instance(row: Mapping[str, Any], etag: str = "") -> Instance | None:
    """Return an instance from a row of the API, or None if it does not belong to this service.

    Raises:
        KeyError, ValueError: keys or the root disk that we gave it were changed by hand.
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
    """Return the uuids of the service's devices of a kind; names of other devices may be similar."""
    found = (re.fullmatch(f"{kind}({UUID_PATTERN})", name) for name in devices)
    return frozenset(UUID(one[1]) for one in found if one is not None)


def gated(found: Instance, fence: int) -> dict[str, Any]:
    """Return the definition of an instance with its root disk only, which does not start and may be removed."""
    config = {**found.config, f"{KEY}fence": str(fence), PROTECTION: "false"}
    devices = {ROOT: found.devices[ROOT]} if ROOT in found.devices else {}
    return {**found.definition, "config": config, "devices": {**devices, GATE: CLOSED}}


def opened(
    found: Instance, guest: GuestSpec, volumes: Iterable[Volume], fence: int, options: IncusOptions
) -> dict[str, Any]:
    """Return the definition of an instance with which the guest runs."""
    devices = devices_of(found, guest, volumes, options)
    # Incus names the interfaces of containers itself; those of virtual machines are named by the guest.
    names = (
        {nic.uuid: devices[f"{NIC}{nic.uuid}"]["name"] for nic in guest.nics} if found.kind == CONTAINER else None
    )
    config = {**found.config, **limits(guest), **cloud_init_keys(guest, names, options), PROTECTION: "true"}
    config |= {f"{KEY}fence": str(fence), f"{KEY}name": guest.name}
    return {**found.definition, "config": config, "devices": devices}


def limits(guest: GuestSpec) -> dict[str, str]:
    """Return the configuration keys of a guest's sizes. Incus has no MHz, so they are stored in our own key."""
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
    """Return the request that creates an instance, prevented from being started."""
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
    """Return a custom volume from a row of the API.

    Returns None for volumes that do not belong to this service, and for snapshots (``VOLUME/SNAPSHOT``).
    """
    config = row.get("config") or {}
    if row.get("type") != "custom" or f"{KEY}pool" not in config or "/" in row["name"]:
        return None
    size, pool_uuid = read_size(config["size"]), UUID(config[f"{KEY}pool"])
    return Volume(UUID(row["name"]), pool_uuid, incus_pool, size, read_location(row))


def read_location(row: Mapping[str, Any]) -> str | None:
    """Return the member of an object, or None if the server is no cluster or all members reach the object."""
    location = row.get("location")
    return None if location in ("", "none") else location
