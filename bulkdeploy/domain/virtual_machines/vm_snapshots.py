"""Snapshots of VMs, and of their volumes, in CloudStack's words."""

from enum import StrEnum


class SnapshotType(StrEnum):
    """The content of a VM snapshot: its volumes, or its memory as well."""

    DISK = "Disk"
    DISK_AND_MEMORY = "DiskAndMemory"


class SnapshotState(StrEnum):
    """A snapshot of a VM: a job makes, reverts to or removes it, it can be reverted to, or it could not be made."""

    CREATING = "Creating"
    READY = "Ready"
    REVERTING = "Reverting"
    EXPUNGING = "Expunging"
    ERROR = "Error"


AT_WORK = frozenset({SnapshotState.CREATING, SnapshotState.REVERTING, SnapshotState.EXPUNGING})
"""Those in which a job has it, or could not end what it began."""
