"""What VMs and volumes with snapshots keep as it is: rules for calls and jobs."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.virtual_machines import GONE, VmState
from bulkdeploy.store.virtual_machines.vm_snapshots import (
    snapshots_of_vm,
    snapshots_of_volumes,
    snapshots_that_stay,
)


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


def check_no_snapshots_stay(connection: Connection, vm: Row[Any], going: Collection[int], parameter: str) -> None:
    """A VM, whose row the caller has locked, may be destroyed: its snapshots could not be removed afterwards.

    One that is destroyed already, or in state Error, may be: no snapshot of it can be deleted any more.

    Args:
        connection: in a transaction.
        vm: the VM's row.
        going: those of its volumes that are deleted with it, besides those that were made with it.
        parameter: the one that names the VM.

    Raises:
        InvalidParameter: snapshots of it lie in data volumes that outlive it.
    """
    snapshots = () if vm.state in {*GONE, VmState.ERROR} else snapshots_that_stay(connection, vm.id, going)
    if snapshots:
        rule = (
            f"snapshots ({_names(snapshots)}) lie in data volumes that are not deleted with it: delete them first, "
            "or name the volumes in volumeids"
        )
        raise InvalidParameter(parameter, str(vm.uuid), rule)


def _names(snapshots: Sequence[Row[Any]]) -> str:
    more = f" and {len(snapshots) - 3} more" if len(snapshots) > 3 else ""
    return ", ".join(snapshot.display_name for snapshot in snapshots[:3]) + more
