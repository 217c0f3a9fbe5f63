"""The results of jobs that move all VMs off hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.hypervisors import guest_fences

_MOVES = text(
    "SELECT p.id AS parent_id, h.uuid AS host_uuid, h.name AS host_name, c.uuid AS job_uuid, c.status,"
    " CAST(c.result AS jsonb) ->> 'errortext' AS reason, v.uuid, v.name, n.uuid AS now_uuid, n.name AS now_name"
    " FROM async_jobs p JOIN hosts h ON h.id = p.instance_id"
    " LEFT JOIN async_jobs c ON c.parent_id = p.id LEFT JOIN virtual_machines v ON v.id = c.instance_id"
    " LEFT JOIN hosts n ON n.id = v.host_id WHERE p.id = ANY(CAST(:jobs AS bigint[])) ORDER BY p.id, v.id"
)
_WITHOUT_CHILD = text(
    "SELECT p.id AS parent_id, v.uuid, v.name, v.state, v.host_id IS DISTINCT FROM p.instance_id AS is_elsewhere,"
    " j.uuid AS job_uuid, CAST(j.result AS jsonb) ->> 'errortext' AS reason, n.uuid AS now_uuid, n.name AS now_name"
    " FROM async_jobs p CROSS JOIN LATERAL jsonb_each(p.progress -> 'involved') AS noted(vm_id, value)"
    " JOIN virtual_machines v ON v.id = CAST(noted.vm_id AS bigint)"
    " LEFT JOIN async_jobs j ON j.id = CAST(noted.value ->> 1 AS bigint) LEFT JOIN hosts n ON n.id = v.host_id"
    " WHERE p.id = ANY(CAST(:jobs AS bigint[])) AND p.kind = 'evacuate_host'"
    "   AND NOT EXISTS (SELECT FROM async_jobs c WHERE c.parent_id = p.id AND c.instance_id = v.id)"
    " ORDER BY p.id, v.id"
)
"""VMs that held something on an evacuated host, and that no job of the evacuation started."""

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
    """Return the columns uuid, name, ip_address, hypervisor and url of a host."""
    query = text("SELECT uuid, name, ip_address, hypervisor, url FROM hosts WHERE id = :host")
    return connection.execute(query, {"host": host_id}).one()


def read_addresses(connection: Connection, host_uuids: Sequence[UUID]) -> Sequence[Row[Any]]:
    """Return the columns uuid, name, ip_address, hypervisor and url of hosts. Removed hosts are omitted."""
    query = text(
        "SELECT uuid, name, ip_address, hypervisor, url FROM hosts"
        " WHERE uuid = ANY(CAST(:hosts AS uuid[])) AND removed IS NULL"
    )
    return connection.execute(query, {"hosts": list(host_uuids)}).all()


def zone_of_host(connection: Connection, host_id: int) -> int:
    """Return the id of a host's zone."""
    return int(
        connection.execute(text("SELECT zone_id FROM hosts WHERE id = :host"), {"host": host_id}).scalar_one()
    )


def set_host_state(connection: Connection, host_id: int, state: HostState) -> None:
    """Write a host's state. The caller has locked the host's capacity row."""
    values = {"host": host_id, "state": state.value}
    connection.execute(text("UPDATE hosts SET state = :state WHERE id = :host"), values)


def set_fenced(connection: Connection, host_id: int) -> None:
    """Record that a host is fenced, and that no guest is on the host any more.

    No guest can claim the host until ``reconnectHost`` is called.
    """
    connection.execute(text("UPDATE hosts SET fenced = now() WHERE id = :host"), {"host": host_id})
    guest_fences.release_host(connection, host_id)


def guests_kept_on(connection: Connection, host_id: int) -> set[UUID]:
    """Return the uuids of the VMs whose rows name this host."""
    query = text("SELECT uuid FROM virtual_machines WHERE host_id = :host AND removed IS NULL")
    return set(connection.execute(query, {"host": host_id}).scalars())


_HOLDS_HOST = (
    "(v.host_id = :host OR v.uuid IN (SELECT consumer FROM host_claims WHERE host_id = :host)"
    "   OR v.id IN (SELECT m.instance_id FROM host_claims c JOIN async_jobs m ON m.uuid = c.consumer"
    "     WHERE c.host_id = :host AND m.instance_type = 'VirtualMachine'))"
)
"""The condition that VM ``v`` has a claim on a host: it is there, starts there, or migrates from or to the host."""

_ON_HOST = text(
    "SELECT v.id, v.state, v.host_id, j.id AS job_id, j.kind FROM virtual_machines v"
    " LEFT JOIN LATERAL (SELECT o.id, o.kind FROM async_jobs o WHERE o.instance_id = v.id"
    "   AND o.instance_type = 'VirtualMachine' AND o.status = 0 AND o.parent_id IS DISTINCT FROM :job"
    "   ORDER BY o.id LIMIT 1) j ON true"
    " WHERE v.removed IS NULL AND $holds_host ORDER BY v.id".replace("$holds_host", _HOLDS_HOST)
)


def vms_holding_host(connection: Connection, host_id: int, job_id: int) -> Sequence[Row[Any]]:
    """Return the VMs with a claim on a host: VMs that are there, start there, or migrate from or to the host.

    The columns are id, state, host_id, and job_id and kind of the VM's first unfinished job, which are None if
    there is no such job. Jobs that job ``job_id`` created are ignored.
    """
    return connection.execute(_ON_HOST, {"host": host_id, "job": job_id}).all()


_VOLUMES = text(
    "SELECT p.uuid AS pool_uuid, x.uuid AS volume_uuid FROM virtual_machines v JOIN volumes x ON x.vm_id = v.id"
    " JOIN storage_pools p ON p.id = x.pool_id"
    " WHERE v.removed IS NULL AND x.removed IS NULL AND p.host_id IS NULL"
    " AND $holds_host ORDER BY x.id LIMIT :most".replace("$holds_host", _HOLDS_HOST)
)


def shared_volumes(connection: Connection, host_id: int, most: int) -> list[tuple[UUID, UUID]]:
    """Return the volumes in shared pools of all VMs that may run on a host, by pool and volume.

    A VM that a job starts, stops or migrates is included, because its guest may write while the job waits.
    """
    rows = connection.execute(_VOLUMES, {"host": host_id, "most": most})
    return [(row.pool_uuid, row.volume_uuid) for row in rows]


_NOTED = text(
    "SELECT v.id, v.state, v.host_id, j.status AS job_status,"
    " EXISTS (SELECT FROM async_jobs c WHERE c.parent_id = :job AND c.instance_id = v.id) AS has_child,"
    " EXISTS (SELECT FROM async_jobs s WHERE s.instance_id = v.id AND s.instance_type = 'VirtualMachine'"
    "   AND s.kind = 'stop_virtual_machine' AND s.id > noted.job_id) AS is_stopped_since"
    " FROM unnest(CAST(:vms AS bigint[]), CAST(:jobs AS bigint[])) AS noted(vm_id, job_id)"
    " JOIN virtual_machines v ON v.id = noted.vm_id AND v.removed IS NULL"
    " LEFT JOIN async_jobs j ON j.id = noted.job_id ORDER BY v.id"
)


def noted_vms(connection: Connection, jobs_by_vm: Mapping[int, int], job_id: int) -> Sequence[Row[Any]]:
    """Return the rows of VMs, each with the status of one of its jobs.

    The columns are id, state, host_id, job_status, has_child and is_stopped_since. ``jobs_by_vm`` has the job's id
    by the VM's id; ``job_status`` is None if there is no such job. ``has_child`` tells whether job ``job_id``
    created a job for the VM, and ``is_stopped_since`` whether a later job stops the VM. Expunged VMs are omitted.
    """
    given = {"vms": list(jobs_by_vm), "jobs": list(jobs_by_vm.values()), "job": job_id}
    return connection.execute(_NOTED, given).all()


def vms_on_off_hosts(connection: Connection, vm_ids: Sequence[int]) -> list[int]:
    """Return the ids of the VMs out of ``vm_ids`` that are on fenced hosts, in ascending order."""
    query = text(
        "SELECT v.id FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
        " WHERE v.id = ANY(CAST(:vms AS bigint[])) AND h.fenced IS NOT NULL ORDER BY v.id"
    )
    return list(connection.execute(query, {"vms": int_array(vm_ids)}).scalars())


def vms_without_host(connection: Connection, vm_ids: Sequence[int]) -> set[int]:
    """Return the ids of the VMs out of ``vm_ids`` that are on no host."""
    query = text("SELECT id FROM virtual_machines WHERE id = ANY(CAST(:vms AS bigint[])) AND host_id IS NULL")
    return set(connection.execute(query, {"vms": int_array(vm_ids)}).scalars())


@dataclass(frozen=True, slots=True)
class VmPlace:
    """A VM's name and host. The host is None if the VM is on no host."""

    name: str
    host_id: int | None
    uuid: UUID


def vm_places(connection: Connection, vm_ids: Sequence[int]) -> dict[int, VmPlace]:
    """Return the name, uuid and host of VMs by id. Expunged VMs are omitted."""
    query = text(
        "SELECT id, uuid, name, host_id FROM virtual_machines"
        " WHERE id = ANY(CAST(:vms AS bigint[])) AND removed IS NULL"
    )
    return {
        row.id: VmPlace(row.name, row.host_id, row.uuid) for row in connection.execute(query, {"vms": list(vm_ids)})
    }


def running_vms_on(connection: Connection, host_id: int) -> list[int]:
    """Return the ids of the VMs that run on a host."""
    query = text("SELECT id FROM virtual_machines WHERE host_id = :host AND state = 'Running' ORDER BY id")
    return list(connection.execute(query, {"host": host_id}).scalars())


def host_migration_rows(connection: Connection, job_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return, by job id, the host, the VMs that were moved off the host, and the other VMs with the reasons.

    For evacuated hosts, the result also has the VMs with volumes on the host's local disks, which are unreachable.
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
    for row in connection.execute(_WITHOUT_CHILD, {"jobs": list(job_ids)}):
        vm = {"virtualmachineid": str(row.uuid), "virtualmachinename": row.name}
        if row.job_uuid is not None:
            vm["jobid"] = str(row.job_uuid)
        if row.state == VmState.RUNNING and row.is_elsewhere:
            found[row.parent_id]["moved"].append({**vm, "hostid": str(row.now_uuid), "hostname": row.now_name})
        else:
            why = f"it is {row.state}: it did not run before, or only virtual machines with high availability start"
            found[row.parent_id]["failed"].append({**vm, "errortext": row.reason or why})
    for row in connection.execute(_LOST, {"jobs": list(job_ids)}):
        lost = {"virtualmachineid": str(row.uuid), "virtualmachinename": row.name}
        found[row.parent_id].setdefault("lost", []).append({**lost, "state": row.state, "volumes": row.volumes})
    return found
