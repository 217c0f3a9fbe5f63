"""Snapshots of VMs and of volumes, with CloudStack's names."""

from enum import StrEnum


class SnapshotType(StrEnum):
    """The content of a VM snapshot: the volumes only, or the volumes and the memory."""

    DISK = "Disk"
    DISK_AND_MEMORY = "DiskAndMemory"


class SnapshotState(StrEnum):
    """The states of VM snapshots."""

    CREATING = "Creating"
    READY = "Ready"
    REVERTING = "Reverting"
    EXPUNGING = "Expunging"
    ERROR = "Error"


AT_WORK = frozenset({SnapshotState.CREATING, SnapshotState.REVERTING, SnapshotState.EXPUNGING})
"""Those in which a job has it, or could not end what it began."""
