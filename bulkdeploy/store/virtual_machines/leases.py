"""Rows of VM leases: finding expired leases, changing and ending leases."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from bulkdeploy.domain.virtual_machines.leases import LEASES_ENABLED, NO_LEASE_COLUMNS
from bulkdeploy.domain.virtual_machines.virtual_machines import GONE
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.rows.due_rows import due_rows, lock_due
from bulkdeploy.store.rows.filters import Condition
from bulkdeploy.store.tables.virtual_machines import virtual_machines

VM = virtual_machines.c


def due_leases(connection: Connection, most: int) -> list[tuple[Any, ...]]:
    """Return the ids of VMs whose lease has expired, the oldest first.

    The list is empty while leases are disabled.
    """
    if not read_configuration(connection).flag(LEASES_ENABLED):
        return []
    return due_rows(connection, (VM.id,), VM.lease_due, _is_live(), most)


def lock_due_lease(connection: Connection, vm_id: int) -> Row[Any] | None:
    """Lock a VM whose lease has expired and return its row.

    Returns None if the lease was changed or ended, or if leases were disabled since ``due_leases`` returned the VM.
    """
    if not read_configuration(connection).flag(LEASES_ENABLED):
        return None
    return lock_due(connection, virtual_machines, vm_id, VM.lease_due, _is_live())


def read_lease(connection: Connection, vm_id: int) -> Row[Any]:
    """Return ``lease_expires`` (NULL without a lease) and ``expired`` of a VM. The caller has locked the VM."""
    expired = func.coalesce(VM.lease_expires <= func.now(), False).label("expired")
    return connection.execute(select(VM.lease_expires, expired).where(VM.id == vm_id)).one()


def change_lease(connection: Connection, vm_id: int, columns: Mapping[str, Any]) -> None:
    """Change the lease of a locked VM."""
    connection.execute(update(virtual_machines).where(VM.id == vm_id).values(**columns))


def end_lease(connection: Connection, vm_id: int) -> None:
    """End the lease of a locked VM."""
    change_lease(connection, vm_id, NO_LEASE_COLUMNS)


def postpone_lease(connection: Connection, vm_id: int, interval_s: int) -> None:
    """Schedule another attempt of an expired lease's action in ``interval_s`` seconds."""
    change_lease(connection, vm_id, {"lease_due": func.now() + timedelta(seconds=interval_s)})


def _is_live() -> Condition:
    return VM.removed.is_(None) & VM.state.not_in(GONE)
