"""Instances of the service in Ganeti, with their names and tags."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import VolumeSpec

SUFFIX = ".bulkdeploy"
TAG = "bulkdeploy:"
LEFT = f"{TAG}left:"


@dataclass(frozen=True, slots=True)
class GanetiInstance:
    """An instance of the service in Ganeti."""

    uuid: UUID
    node: str
    secondary: str | None
    runs: bool
    wanted: bool
    is_seen: bool
    vcpus: int
    memory: int
    mhz: int
    volumes: dict[UUID, tuple[UUID, int]]
    disk_names: tuple[str | None, ...]
    disk_sizes: tuple[int, ...]
    left_nodes: frozenset[str]
    """Nodes that the instance left while they were silent, so that a copy may still run there."""


def silence_of(one: GanetiInstance) -> str:
    """Return an error text which explains that it is unknown whether an instance runs."""
    return f"node {one.node} does not report to Ganeti whether instance {one.uuid}{SUFFIX} runs"


def left_tag(node: str) -> str:
    """Return the tag which records that an instance left a silent node, where a copy may still run."""
    return f"{LEFT}{node}"


def tag_of(volume: VolumeSpec) -> str:
    """Return the tag that describes a volume."""
    return volume_tag(volume.uuid, volume.pool_uuid, volume.size_bytes)


def volume_tag(uuid: UUID, pool_uuid: UUID, size_bytes: int) -> str:
    """Return the tag that describes a volume with this pool and size."""
    return f"{TAG}volume:{uuid}:{pool_uuid}:{size_bytes}"


def guest_of(row: dict[str, Any]) -> UUID | None:
    """Return the uuid of an instance's guest, or None if the instance is not the service's."""
    for tag in row["tags"]:
        if tag.startswith(f"{TAG}uuid:"):
            return UUID(tag.removeprefix(f"{TAG}uuid:"))
    return None


def read_instance(row: dict[str, Any]) -> GanetiInstance:
    """Convert a row of Ganeti's instance list to a GanetiInstance.

    Raises:
        DriverError: the instance does not belong to the service.
    """
    uuid = guest_of(row)
    if uuid is None:
        raise DriverError(
            "look", row["pnode"], f"instance {row['name']} does not belong to bulkdeploy", transient=False
        )
    facts = dict(tag.removeprefix(TAG).split(":", 1) for tag in row["tags"] if tag.startswith(TAG))
    volumes: dict[UUID, tuple[UUID, int]] = {}
    for tag in row["tags"]:
        if tag.startswith(f"{TAG}volume:"):
            volume, pool, size = tag.removeprefix(f"{TAG}volume:").split(":")
            volumes[UUID(volume)] = (UUID(pool), max(int(size), volumes.get(UUID(volume), (UUID(pool), 0))[1]))
    return GanetiInstance(
        uuid=uuid,
        node=row["pnode"],
        secondary=next(iter(row["snodes"]), None),
        runs=bool(row["oper_state"]),
        is_seen=row["oper_state"] is not None,
        wanted=row["admin_state"] == "up",
        vcpus=int(row["beparams"]["vcpus"]),
        memory=int(row["beparams"]["maxmem"]),
        mhz=int(facts.get("mhz", 0)),
        volumes=volumes,
        disk_names=tuple(row["disk.names"]),
        disk_sizes=tuple(row["disk.sizes"]),
        left_nodes=frozenset(tag.removeprefix(LEFT) for tag in row["tags"] if tag.startswith(LEFT)),
    )
