"""What jobs that take all VMs off hosts have to show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.domain.topology import HostState
from bulkdeploy.store.hypervisors import guest_fences

_MOVES = text(
    "SELECT p.id AS parent_id, h.uuid AS host_uuid, h.name AS host_name, c.uuid AS job_uuid, c.status,"
    " CAST(c.result AS jsonb) ->> 'errortext' AS reason, v.uuid, v.name, n.uuid AS now_uuid, n.name AS now_name"
    " FROM async_jobs p JOIN hosts h ON h.id = p.instance_id"
    " LEFT JOIN async_jobs c ON c.parent_id = p.id LEFT JOIN virtual_machines v ON v.id = c.instance_id"
    " LEFT JOIN hosts n ON n.id = v.host_id WHERE p.id = ANY(CAST(:jobs AS bigint[])) ORDER BY p.id, v.id"
)
_LOST = text(
    "SELECT p.id AS parent_id, v.uuid, v.name, v.state, string_agg(x.name, ', ' ORDER BY x.id) AS volumes"
    " FROM async_jobs p JOIN storage_pools s ON s.host_id = p.instance_id"
    " JOIN volumes x ON x.pool_id = s.id AND x.removed IS NULL"
    " JOIN virtual_machines v ON v.id = x.vm_id AND v.removed IS NULL"
    " WHERE p.id = ANY(CAST(:jobs AS bigint[])) AND p.kind = 'evacuate_host' AND (p.params ->> 'mode' = 'all'"
    "   OR EXISTS (SELECT FROM async_jobs c WHERE c.parent_id = p.id AND c.instance_id = v.id))"
    " GROUP BY p.id, v.id ORDER BY p.id, v.id"
)


def read_address(connection: Connection, host_id: int) -> Row[Any]:
    """Where a host is: uuid, name, ip_address, hypervisor, url."""
    query = text("SELECT uuid, name, ip_address, hypervisor, url FROM hosts WHERE id = :host")
    return connection.execute(query, {"host": host_id}).one()


def read_addresses(connection: Connection, host_uuids: Sequence[UUID]) -> Sequence[Row[Any]]:
    """Where hosts are: uuid, name, ip_address, hypervisor, url; removed ones are left out."""
    query = text(
        "SELECT uuid, name, ip_address, hypervisor, url FROM hosts"
        " WHERE uuid = ANY(CAST(:hosts AS uuid[])) AND removed IS NULL"
    )
    return connection.execute(query, {"hosts": list(host_uuids)}).all()


def zone_of_host(connection: Connection, host_id: int) -> int:
    """The id of a host's zone."""
    return int(
        connection.execute(text("SELECT zone_id FROM hosts WHERE id = :host"), {"host": host_id}).scalar_one()
    )


def set_host_state(connection: Connection, host_id: int, state: HostState) -> None:
    """Write a host's state; the row that claims of it lock is held by the caller."""
    values = {"host": host_id, "state": state.value}
    connection.execute(text("UPDATE hosts SET state = :state WHERE id = :host"), values)


def set_fenced(connection: Connection, host_id: int) -> None:
    """Record that nothing runs on a host from now on, and that no guest is on it.

    No guest can claim the host until ``reconnectHost`` takes it back.
    """
    connection.execute(text("UPDATE hosts SET fenced = now() WHERE id = :host"), {"host": host_id})
    guest_fences.release_host(connection, host_id)


def guests_kept_on(connection: Connection, host_id: int) -> set[UUID]:
    """Return the uuids of the VMs whose rows place them on a host."""
    query = text("SELECT uuid FROM virtual_machines WHERE host_id = :host AND removed IS NULL")
    return set(connection.execute(query, {"host": host_id}).scalars())


def vms_to_evacuate(connection: Connection, host_id: int, job_id: int) -> list[int]:
    """Running VMs on a host that a job has made no job for, by id."""
    query = text(
        "SELECT v.id FROM virtual_machines v WHERE v.host_id = :host AND v.state = 'Running' AND v.id NOT IN"
        " (SELECT instance_id FROM async_jobs WHERE parent_id = :job) ORDER BY v.id"
    )
    return list(connection.execute(query, {"host": host_id, "job": job_id}).scalars())


_COMING = text(
    "SELECT count(*) FROM async_jobs j JOIN virtual_machines v ON v.id = j.instance_id"
    " WHERE j.instance_type = 'VirtualMachine' AND j.status = 0 AND j.phase = 'running' AND v.state <> 'Running'"
    " AND (v.host_id = :host"
    "   OR EXISTS (SELECT FROM host_claims c WHERE c.host_id = :host AND c.consumer = v.uuid))"
)


def vms_that_may_come_up(connection: Connection, host_id: int) -> int:
    """How many VMs are worked on now by jobs that may write that they run on a host, which was fenced meanwhile."""
    return int(connection.execute(_COMING, {"host": host_id}).scalar_one())


@dataclass(frozen=True, slots=True)
class VmPlace:
    """A VM's name and host; None: it holds none."""

    name: str
    host_id: int | None
    uuid: UUID


def vm_places(connection: Connection, vm_ids: Sequence[int]) -> dict[int, VmPlace]:
    """Where VMs are, by id; expunged ones are left out."""
    query = text(
        "SELECT id, uuid, name, host_id FROM virtual_machines"
        " WHERE id = ANY(CAST(:vms AS bigint[])) AND removed IS NULL"
    )
    return {
        row.id: VmPlace(row.name, row.host_id, row.uuid) for row in connection.execute(query, {"vms": list(vm_ids)})
    }


def running_vms_on(connection: Connection, host_id: int) -> list[int]:
    """The VMs that run on a host, by id."""
    query = text("SELECT id FROM virtual_machines WHERE host_id = :host AND state = 'Running' ORDER BY id")
    return list(connection.execute(query, {"host": host_id}).scalars())


def host_migration_rows(connection: Connection, job_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """By job id: the host, the VMs that were taken off it with where they are, the others with the reason.

    Of evacuated hosts also the VMs with volumes on its own disks, which nobody reaches.
    """
    found: dict[int, dict[str, Any]] = {}
    for row in connection.execute(_MOVES, {"jobs": list(job_ids)}):
        shown = found.setdefault(
            row.parent_id, {"hostid": str(row.host_uuid), "hostname": row.host_name, "moved": [], "failed": []}
        )
        if row.uuid is None:
            continue
        vm = {"virtualmachineid": str(row.uuid), "virtualmachinename": row.name, "jobid": str(row.job_uuid)}
        if row.status == JobStatus.SUCCEEDED:
            where = {} if row.now_uuid is None else {"hostid": str(row.now_uuid), "hostname": row.now_name}
            shown["moved"].append({**vm, **where})
        else:
            shown["failed"].append({**vm, "errortext": row.reason})
    for row in connection.execute(_LOST, {"jobs": list(job_ids)}):
        lost = {"virtualmachineid": str(row.uuid), "virtualmachinename": row.name}
        found[row.parent_id].setdefault("lost", []).append({**lost, "state": row.state, "volumes": row.volumes})
    return found
