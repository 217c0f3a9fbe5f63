"""What VMs and volumes with snapshots keep as it is: rules for calls and jobs."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.store.virtual_machines.vm_snapshots import snapshots_of_vm, snapshots_of_volumes


def check_no_snapshots(connection: Connection, vm_id: int, parameter: str, shown: UUID | str) -> None:
    """A VM, whose row the caller has locked, may change what its snapshots are of.

    Raises:
        InvalidParameter: it has snapshots; ``shown`` is the value of ``parameter``.
    """
    snapshots = [snapshot for snapshot in snapshots_of_vm(connection, vm_id) if snapshot.volume_id is None]
    if snapshots:
        names = _names(snapshots)
        rule = f"it has snapshots ({names}): while it has, its volumes, nics, drive, sizes and owner can not change"
        raise InvalidParameter(parameter, str(shown), rule)


def check_no_snapshots_of_volumes(
    connection: Connection, vm_id: int, parameter: str, shown: UUID | str, *, volume_id: int | None = None
) -> None:
    """A volume of a VM (None: each of them) may be taken from it, be resized, replaced, or given to another owner.

    Raises:
        InvalidParameter: it has snapshots, which lie in it; ``shown`` is the value of ``parameter``.
    """
    snapshots = snapshots_of_volumes(connection, vm_id, volume_id)
    if snapshots:
        whose = "its volumes have" if volume_id is None else "the volume has"
        rule = (
            f"{whose} snapshots ({_names(snapshots)}): a volume that has is not detached, resized, restored, "
            "unmanaged or given to another owner; delete them first"
        )
        raise InvalidParameter(parameter, str(shown), rule)


def _names(snapshots: Sequence[Row[Any]]) -> str:
    more = f" and {len(snapshots) - 3} more" if len(snapshots) > 3 else ""
    return ", ".join(snapshot.display_name for snapshot in snapshots[:3]) + more
