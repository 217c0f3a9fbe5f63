"""What VMs with snapshots keep as it is: rules for calls and jobs."""

from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.store.virtual_machines.vm_snapshots import snapshots_of_vm


def check_no_snapshots(connection: Connection, vm_id: int, parameter: str, shown: UUID | str) -> None:
    """A VM, whose row the caller has locked, may change what its snapshots are of.

    Raises:
        InvalidParameter: it has snapshots; ``shown`` is the value of ``parameter``.
    """
    snapshots = snapshots_of_vm(connection, vm_id)
    if snapshots:
        names = ", ".join(snapshot.display_name for snapshot in snapshots[:3])
        more = f" and {len(snapshots) - 3} more" if len(snapshots) > 3 else ""
        rule = f"it has snapshots ({names}{more}): while it has, its volumes, nics, sizes and owner can not change"
        raise InvalidParameter(parameter, str(shown), rule)
