"""The hosts that sweepers check, the VMs expected on them, and the results of the checks."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.infrastructure.host_ha import HA_PRIORITY
from bulkdeploy.domain.jobs import CRASHES
from bulkdeploy.store.database.arrays import int_array

_WATCHED = text(
    "SELECT h.id, h.uuid, h.name, h.ip_address, h.hypervisor, h.url, h.state, h.zone_id, h.cluster_id,"
    " h.memory_mib,"
    " EXISTS (SELECT FROM host_ha a JOIN clusters c ON c.id = h.cluster_id JOIN zones z ON z.id = h.zone_id"
    "   WHERE a.host_id = h.id AND a.enabled AND c.ha_enabled AND z.ha_enabled"
    "   AND a.state NOT IN ('Disabled', 'Ineligible')) AS has_ha,"
    " h.fenced IS NOT NULL AS fenced, w.answers,"
    " CAST(extract(epoch FROM now() - w.since) AS double precision) AS lasted_s"
    " FROM hosts h LEFT JOIN host_watches w ON w.host_id = h.id"
    " WHERE h.removed IS NULL AND h.hypervisor = ANY(:hypervisors) ORDER BY h.id"
)


def watched_hosts(connection: Connection, hypervisors: Collection[str]) -> Sequence[Row[Any]]:
    """Return the hosts of these hypervisors.

    The columns are id, uuid, name, ip_address, hypervisor, url, state, zone_id, cluster_id, memory_mib, fenced,
    ``has_ha`` (host HA decides whether the host is fenced), ``answers`` and ``lasted_s``. For a host that is
    silent, or was silent recently, ``answers`` tells whether the host answers, and ``lasted_s`` for how many
    seconds. Both are None for other hosts.
    """
    return connection.execute(_WATCHED, {"hypervisors": list(hypervisors)}).all()


_HYPERVISORS = text("SELECT DISTINCT hypervisor FROM hosts WHERE removed IS NULL")


def hypervisors_in_use(connection: Connection) -> list[str]:
    """Return the distinct hypervisor types of the live hosts."""
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
    """Return the running VMs on these hosts that have no unfinished job."""
    return connection.execute(_SETTLED_ON, {"hosts": list(host_uuids)}).all()


def lock_settled_vms(
    connection: Connection, host_uuids: Collection[UUID], vm_uuids: Collection[UUID]
) -> Sequence[Row[Any]]:
    """Lock and return the VMs out of ``vm_uuids`` that are still Running on these hosts without an unfinished job.

    The caller creates jobs for them.
    """
    return connection.execute(_LOCK_SETTLED, {"hosts": list(host_uuids), "vms": list(vm_uuids)}).all()


_NOTE = text(
    "INSERT INTO host_watches AS w (host_id, answers)"
    " SELECT id, :answers FROM unnest(CAST(:hosts AS bigint[])) AS id ORDER BY id"
    " ON CONFLICT (host_id) DO UPDATE SET answers = excluded.answers, since = now()"
    " WHERE w.answers <> excluded.answers RETURNING w.host_id"
)


def note_answers(connection: Connection, host_ids: Collection[int], *, answers: bool) -> set[int]:
    """Record whether these hosts answer, and return the hosts for which that changed."""
    given = {"hosts": int_array(sorted(host_ids)), "answers": answers}
    return set(connection.execute(_NOTE, given).scalars())


_EVACUATIONS = (
    "SELECT j.uuid FROM async_jobs j WHERE j.instance_id = h.id AND j.status = 0 AND j.kind = 'evacuate_host'"
)
"""Unfinished jobs that evacuate host ``h``."""

_SET_STATE = text(
    "WITH changed AS (UPDATE hosts h SET state = :state"
    "   WHERE id = ANY(CAST(:hosts AS bigint[])) AND removed IS NULL AND state <> :state"
    "   AND (:state = 'Down' OR (fenced IS NULL AND NOT EXISTS ($evacuations)))"
    "   RETURNING id),"
    " forgotten AS (DELETE FROM host_watches w USING changed c WHERE w.host_id = c.id AND :state = 'Up')"
    " SELECT id FROM changed".replace("$evacuations", _EVACUATIONS)
)


def set_states(connection: Connection, host_ids: Collection[int], state: str) -> set[int]:
    """Write the state of these hosts, and return the hosts whose state changed.

    For hosts that become Up, the records about their silence are deleted. Hosts that were fenced, or that are about
    to be fenced, remain Down.
    """
    given = {"hosts": int_array(sorted(host_ids)), "state": state}
    return set(connection.execute(_SET_STATE, given).scalars())


_HIGHLY_AVAILABLE = (
    "SELECT v.id FROM virtual_machines v JOIN service_offerings o ON o.id = v.service_offering_id"
    " WHERE coalesce(v.ha_enabled, o.offer_ha)"
)
_TO_EVACUATE = text(
    "SELECT h.id, h.uuid, h.name FROM hosts h JOIN host_watches w ON w.host_id = h.id AND NOT w.answers"
    " WHERE h.id = :host AND h.removed IS NULL AND h.state = 'Down' AND h.fenced IS NULL"
    " AND EXISTS ($vms AND v.host_id = h.id AND v.state = 'Running')"
    " AND NOT EXISTS ($evacuations) FOR UPDATE OF h".replace("$vms", _HIGHLY_AVAILABLE).replace(
        "$evacuations", _EVACUATIONS
    )
)


def lock_host_to_evacuate(connection: Connection, host_id: int) -> Row[Any] | None:
    """Lock and return a silent host that is Down, not fenced, and has VMs that must start elsewhere.

    Returns None if the host is not in this situation. The host and its capacity row, which claims lock, remain
    locked.
    """
    connection.execute(text("SELECT FROM host_capacity WHERE host_id = :host FOR UPDATE"), {"host": host_id})
    return connection.execute(_TO_EVACUATE, {"host": host_id}).one_or_none()


_TO_FENCE = text(
    "UPDATE hosts h SET state = 'Down' WHERE h.id = :host AND h.removed IS NULL AND h.fenced IS NULL"
    " AND NOT EXISTS ($evacuations) RETURNING h.id, h.uuid, h.name".replace("$evacuations", _EVACUATIONS)
)


def lock_host_to_fence(connection: Connection, host_id: int) -> Row[Any] | None:
    """Lock a host, set its state to Down, and return its row.

    Returns None if the host is fenced or is being fenced.
    """
    connection.execute(text("SELECT FROM host_capacity WHERE host_id = :host FOR UPDATE"), {"host": host_id})
    return connection.execute(_TO_FENCE, {"host": host_id}).one_or_none()


_EVACUATION_OF = text(
    "SELECT ($evacuations LIMIT 1) FROM hosts h WHERE h.id = :host".replace("$evacuations", _EVACUATIONS)
)


def evacuation_of(connection: Connection, host_id: int) -> UUID | None:
    """Return the uuid of the unfinished job that evacuates a host, or None if there is no such job."""
    return connection.execute(_EVACUATION_OF, {"host": host_id}).scalar_one_or_none()


def highly_available(connection: Connection, vm_ids: Collection[int]) -> set[int]:
    """Return the ids out of ``vm_ids`` of VMs that must start on another host when their host fails."""
    query = text("$vms AND v.id = ANY(CAST(:vms AS bigint[]))".replace("$vms", _HIGHLY_AVAILABLE))
    return set(connection.execute(query, {"vms": int_array(sorted(vm_ids))}).scalars())


_HA_PRIORITIES = text(
    "SELECT v.id, coalesce(v.details->>:name, o.details->>:name) AS priority FROM virtual_machines v"
    " JOIN service_offerings o ON o.id = v.service_offering_id"
    " WHERE v.id = ANY(CAST(:vms AS bigint[])) AND coalesce(v.details->>:name, o.details->>:name) ~ '^[0-9]{1,9}$'"
)


def ha_priorities(connection: Connection, vm_ids: Collection[int]) -> dict[int, int]:
    """Return the HA priorities of VMs that have one in their details or in their service offering's details.

    If a host with several VMs fails, VMs with the highest priority are planned and started first. VMs without a
    priority count as 0.
    """
    rows = connection.execute(_HA_PRIORITIES, {"name": HA_PRIORITY, "vms": int_array(sorted(vm_ids))})
    return {row.id: int(row.priority) for row in rows}


_RESTARTS = text(
    "SELECT instance_id, count(*) AS restarts FROM async_jobs WHERE instance_type = 'VirtualMachine'"
    " AND instance_id = ANY(CAST(:vms AS bigint[])) AND kind = 'reboot_virtual_machine' AND params ? :crashes"
    " AND created > now() - interval '1 hour' GROUP BY instance_id"
)


def restarts_of_late(connection: Connection, vm_ids: Collection[int]) -> dict[int, int]:
    """Return how many jobs of the last hour restarted each VM after a crash. VMs without such jobs are omitted."""
    rows = connection.execute(_RESTARTS, {"vms": int_array(sorted(vm_ids)), "crashes": CRASHES})
    return {row.instance_id: row.restarts for row in rows}
