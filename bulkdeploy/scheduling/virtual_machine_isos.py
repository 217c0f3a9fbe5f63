"""ISOs in the drives of VMs: the rules and the rows, for calls and for jobs. A VM has one drive."""

from sqlalchemy import Connection

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.deployments.deployment_facts import read_template
from bulkdeploy.store.virtual_machines.virtual_machine_changes import drive_of, iso_of, read_vm_row, update_vm

OF_VM = "virtualmachineid"
EMPTY = 0


def insert_iso(connection: Connection, vm_id: int, iso: EntityRef, *, forced: bool) -> int | None:
    """Insert an ISO into a VM's drive, and return the ISO that was in the drive before, or None.

    With ``forced``, an ISO in the drive is replaced. Otherwise the drive must be empty.

    Raises:
        InvalidParameter: the drive is not empty, or the VM's zone does not have the ISO.
        PermissionDenied: the VM's owner may not use the ISO.
    """
    row = read_vm_row(connection, vm_id)
    owner = owners_by_id(connection, [row.account_id])[row.account_id]
    facts = read_template(connection, iso.id, row.zone_id, owner)
    shown = str(iso.uuid)
    if facts is None:
        raise InvalidParameter("id", shown, "the ISO was deleted")
    own = facts.owner_id == owner.account_id
    if not (facts.is_public or facts.shared_with_owner or own or owner.is_root_admin):
        raise PermissionDenied(f"Account {owner.account_name} does not have permission to use ISO {shown}")
    if not facts.ready:
        raise InvalidParameter("id", shown, f"ISO {facts.name} is not ready in the VM's zone")
    there = iso_of(connection, vm_id)
    if there is not None and there.id != iso.id and not forced:
        rule = f"ISO {there.name} is attached; detach it with detachIso, or replace it with forced=true"
        raise InvalidParameter(OF_VM, str(row.uuid), rule)
    return _change(connection, vm_id, iso.id)


def eject_iso(connection: Connection, vm_id: int) -> int | None:
    """Remove the ISO from a VM's drive, and return the previous value of the VM's ISO column.

    Raises:
        InvalidParameter: the drive is empty.
    """
    if iso_of(connection, vm_id) is None:
        raise InvalidParameter(OF_VM, str(read_vm_row(connection, vm_id).uuid), "no ISO is attached to it")
    return _change(connection, vm_id, EMPTY)


def restore_drive(connection: Connection, vm_id: int, drive: int | None) -> None:
    """Set the ISO in a VM's drive to a previous value."""
    update_vm(connection, vm_id, {"iso_id": drive})


def _change(connection: Connection, vm_id: int, iso_id: int) -> int | None:
    before = drive_of(connection, vm_id)
    update_vm(connection, vm_id, {"iso_id": iso_id})
    return before
