"""The rules of calls and jobs for VMs and volumes with snapshots, which forbid some changes."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.virtual_machines.virtual_machines import GONE, VmState
from bulkdeploy.store.virtual_machines.vm_snapshots import (
    snapshots_of_vms,
    snapshots_of_volumes,
    snapshots_that_stay,
)


def check_no_snapshots(connection: Connection, vm_id: int, parameter: str, shown: UUID | str) -> None:
    """Check that a VM has no snapshots that a change would make unusable. The caller has locked the VM's row.

    Raises:
        InvalidParameter: the VM has snapshots; ``shown`` is the value of ``parameter``.
    """
    for rule in find_spoiled_snapshots(connection, [vm_id]).values():
        raise InvalidParameter(parameter, str(shown), rule)


def find_spoiled_snapshots(connection: Connection, vm_ids: Collection[int]) -> dict[int, str]:
    """Return the rule that forbids a change of each VM with snapshots, by VM id.

    The caller has locked the VMs' rows.
    """
    found = [snapshot for snapshot in snapshots_of_vms(connection, vm_ids) if snapshot.volume_id is None]
    return {
        vm_id: f"it has snapshots ({_names(snapshots)}): while it has, its volumes, nics, drive, sizes and owner"
        " cannot change"
        for vm_id, snapshots in _by_vm(found).items()
    }


def check_no_snapshots_of_volumes(
    connection: Connection, vm_id: int, parameter: str, shown: UUID | str, *, volume_id: int | None = None
) -> None:
    """Check that no volume of a VM has snapshots, or only that ``volume_id`` has none.

    A volume with snapshots must not be detached, resized, replaced or assigned to another owner.

    Raises:
        InvalidParameter: a volume has snapshots, which are stored in it; ``shown`` is the value of ``parameter``.
    """
    volume_ids = None if volume_id is None else [volume_id]
    for rule in find_snapshots_of_volumes(connection, [vm_id], volume_ids).values():
        raise InvalidParameter(parameter, str(shown), rule)


def find_snapshots_of_volumes(
    connection: Connection, vm_ids: Collection[int], volume_ids: Collection[int] | None = None
) -> dict[int, str]:
    """Return the rule about volume snapshots for each VM that has some, by VM id. Other VMs are omitted.

    ``volume_ids`` restricts the search to snapshots of these volumes.
    """
    whose = "its volumes have" if volume_ids is None else "the volume has"
    return {
        vm_id: f"{whose} snapshots ({_names(snapshots)}): a volume that has is not detached, resized, restored, "
        "unmanaged or given to another owner; delete them first"
        for vm_id, snapshots in _by_vm(snapshots_of_volumes(connection, vm_ids, volume_ids)).items()
    }


def find_snapshots_that_stay(
    connection: Connection, vms: Sequence[Row[Any]], going: Collection[int]
) -> dict[int, str]:
    """Return the rule about snapshots for each VM that must not be destroyed, by VM id.

    Snapshots in data volumes that are not deleted with their VM could not be deleted any more. VMs that are
    destroyed or in state Error are omitted, because their snapshots cannot be deleted in any case.

    Args:
        connection: has an open transaction.
        vms: the locked rows of the VMs.
        going: the data volumes that are deleted with the VMs, in addition to volumes that were created with them.
    """
    vm_ids = [vm.id for vm in vms if vm.state not in {*GONE, VmState.ERROR}]
    return {
        vm_id: f"snapshots ({_names(snapshots)}) lie in data volumes that are not deleted with it: delete them"
        " first, or name the volumes in volumeids"
        for vm_id, snapshots in _by_vm(snapshots_that_stay(connection, vm_ids, going)).items()
    }


def _by_vm(snapshots: Sequence[Row[Any]]) -> dict[int, list[Row[Any]]]:
    found: dict[int, list[Row[Any]]] = {}
    for snapshot in snapshots:
        found.setdefault(snapshot.vm_id, []).append(snapshot)
    return found


def _names(snapshots: Sequence[Row[Any]]) -> str:
    more = f" and {len(snapshots) - 3} more" if len(snapshots) > 3 else ""
    return ", ".join(snapshot.display_name for snapshot in snapshots[:3]) + more
