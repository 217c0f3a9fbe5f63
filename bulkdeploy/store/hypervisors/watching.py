"""Hosts that are watched, VMs that are to be seen on them, and what was seen. Set-based."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

_WATCHED = text(
    "SELECT h.uuid, h.name, h.ip_address, h.hypervisor, h.url, h.state FROM hosts h"
    " WHERE h.removed IS NULL AND h.url IS NOT NULL AND h.hypervisor = ANY(:hypervisors) ORDER BY h.id"
)


def watched_hosts(connection: Connection, hypervisors: Collection[str]) -> Sequence[Row[Any]]:
    """Hosts of these hypervisors that have a url: uuid, name, ip_address, hypervisor, url, state."""
    return connection.execute(_WATCHED, {"hypervisors": list(hypervisors)}).all()


_HYPERVISORS = text("SELECT DISTINCT hypervisor FROM hosts WHERE removed IS NULL AND url IS NOT NULL")


def hypervisors_with_urls(connection: Connection) -> list[str]:
    """The hypervisor types of hosts that have a url."""
    return list(connection.execute(_HYPERVISORS).scalars())


_SETTLED = (
    "SELECT v.id, v.uuid, v.account_id, v.user_id, v.name, v.updated, h.uuid AS host_uuid"
    " FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
    " WHERE v.removed IS NULL AND v.state = 'Running' AND h.uuid = ANY(CAST(:hosts AS uuid[]))"
    " AND NOT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.status + 0 = 0"
    "   AND j.instance_type = 'VirtualMachine')"
)
_SETTLED_ON = text(_SETTLED)
_LOCK_SETTLED = text(_SETTLED + " AND v.uuid = ANY(CAST(:vms AS uuid[])) ORDER BY v.id FOR UPDATE OF v")


def settled_vms(connection: Connection, host_uuids: Collection[UUID]) -> Sequence[Row[Any]]:
    """Running VMs of these hosts on which no job works."""
    return connection.execute(_SETTLED_ON, {"hosts": list(host_uuids)}).all()


def lock_settled_vms(
    connection: Connection, host_uuids: Collection[UUID], vm_uuids: Collection[UUID]
) -> Sequence[Row[Any]]:
    """Those of these VMs that still are Running on these hosts without a job; locked, for jobs to be made."""
    return connection.execute(_LOCK_SETTLED, {"hosts": list(host_uuids), "vms": list(vm_uuids)}).all()


_SET_STATE = text(
    "UPDATE hosts SET state = :state"
    " WHERE uuid = ANY(CAST(:hosts AS uuid[])) AND removed IS NULL AND state <> :state"
)


def set_states(connection: Connection, host_uuids: Collection[UUID], state: str) -> None:
    """Let these hosts be in this state."""
    connection.execute(_SET_STATE, {"hosts": list(host_uuids), "state": state})
