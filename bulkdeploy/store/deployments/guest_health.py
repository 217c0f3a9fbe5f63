"""The health of guests of replaced VMs in managed deployments: due health checks and their results."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.deployments.health_checks import GuestHealth
from bulkdeploy.store.database.arrays import int_array

CHECK_EVERY_S, CURRENT_S = 5, 60
"""Seconds between two checks of a guest, and seconds for which an answer counts."""

_DUE = text(
    "SELECT * FROM (SELECT v.id, v.uuid, m.health_check, host(n.ip_address) AS guest_address, h.uuid AS host_uuid,"
    "   h.name AS host_name, h.ip_address, h.hypervisor, h.url, g.checked, now() AS began"
    " FROM managed_deployments m JOIN replacements r ON r.deployment_id = m.deployment_id"
    "   AND r.completed IS NULL AND r.state = 'InProgress'"
    " JOIN deployments d ON d.id = m.deployment_id OR d.batch_id = m.deployment_id"
    "   OR d.grown_from = m.deployment_id"
    " JOIN virtual_machines v ON v.deployment_id = d.id AND v.removed IS NULL AND v.state = 'Running'"
    " JOIN hosts h ON h.id = v.host_id"
    " LEFT JOIN nics n ON n.vm_id = v.id AND n.removed IS NULL AND n.is_default"
    " LEFT JOIN replaced_vms o ON o.replacement_id = r.id AND o.vm_id = v.id"
    " LEFT JOIN guest_health g ON g.vm_id = v.id"
    " WHERE v.id > :after AND m.health_check IS NOT NULL AND o.state IS DISTINCT FROM 'Pending'"
    "   AND (g.checked IS NULL OR g.checked < greatest(v.updated, now() - make_interval(secs => :every)))"
    "   AND NOT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.instance_type = 'VirtualMachine'"
    "     AND j.status = 0)"
    " ORDER BY v.id LIMIT :most) AS due ORDER BY checked NULLS FIRST, id"
)


def due_checks(connection: Connection, after: int, most: int) -> Sequence[Row[Any]]:
    """Return the replaced VMs without a job whose guests must be checked now, the longest unchecked first.

    They are the ``most`` VMs with the lowest ids above ``after``. The columns are id, uuid, the text of the health
    check, the guest's address, ``began`` (the time of the query), and those of the host's address.
    """
    return connection.execute(_DUE, {"after": after, "most": most, "every": CHECK_EVERY_S}).all()


_NOTE = text(
    "INSERT INTO guest_health AS g (vm_id, checked, answered, silent_since)"
    " SELECT vm, began, CASE WHEN answers THEN began END, CASE WHEN NOT answers THEN began END"
    " FROM unnest(CAST(:vms AS bigint[]), CAST(:answers AS boolean[])) AS seen(vm, answers),"
    "   CAST(:began AS timestamptz) AS began ORDER BY vm"
    " ON CONFLICT (vm_id) DO UPDATE SET checked = excluded.checked,"
    "   answered = coalesce(excluded.answered, g.answered), silent_since ="
    "   CASE WHEN excluded.answered IS NULL THEN coalesce(g.silent_since, excluded.silent_since) END"
    " WHERE g.checked < excluded.checked"
)

_DELETE_OLD = text("DELETE FROM guest_health WHERE checked < now() - interval '1 day'")


def note_answers(connection: Connection, began: datetime, answers: Mapping[int, bool]) -> None:
    """Write whether each of these VMs answered a check that began at ``began``. Newer results are not replaced.

    Results that are older than a day are deleted.
    """
    vm_ids = sorted(answers)
    given = {"began": began, "vms": int_array(vm_ids), "answers": [answers[vm_id] for vm_id in vm_ids]}
    connection.execute(_NOTE, given)
    connection.execute(_DELETE_OLD)


START_KINDS = ("deploy_virtual_machine", "start_virtual_machine", "restore_virtual_machine")
"""The kinds of jobs after which a guest must answer anew. A guest that has answered keeps that when it moves."""

_HEALTH = text(
    "SELECT v.id, g.silent_since IS NULL AND g.checked >= v.updated AND g.checked > recent.since AS is_answering,"
    " v.state = 'Running' AND g.silent_since IS NOT NULL AND g.checked > recent.since"
    "   AND coalesce(g.answered < s.started, g.answered IS NULL)"
    "   AND g.checked >= greatest(g.silent_since, s.started) + make_interval(secs => :timeout) AS is_lost"
    " FROM virtual_machines v JOIN guest_health g ON g.vm_id = v.id"
    " CROSS JOIN (SELECT now() - make_interval(secs => :current) AS since) AS recent"
    " LEFT JOIN LATERAL (SELECT max(j.completed) AS started FROM async_jobs j WHERE g.silent_since IS NOT NULL"
    "   AND j.instance_id = v.id AND j.instance_type = 'VirtualMachine' AND j.kind = ANY(:starts)"
    "   AND j.status = 1) AS s ON true"
    " WHERE v.id = ANY(CAST(:vms AS bigint[]))"
)


def health_of_guests(connection: Connection, vm_ids: Sequence[int], timeout_s: int) -> dict[int, GuestHealth]:
    """Return the health of the guests of these VMs, by VM id. Guests that were never checked are omitted."""
    wanted = {"vms": int_array(vm_ids), "current": CURRENT_S, "timeout": timeout_s, "starts": list(START_KINDS)}
    return {
        row.id: GuestHealth(is_answering=row.is_answering, is_lost=row.is_lost)
        for row in connection.execute(_HEALTH, wanted)
    }


def forget_health(connection: Connection, vm_ids: Collection[int]) -> None:
    """Delete the results of earlier checks, so that the timeout of these guests begins again."""
    query = text("DELETE FROM guest_health WHERE vm_id = ANY(CAST(:vms AS bigint[]))")
    connection.execute(query, {"vms": int_array(sorted(vm_ids))})


_ADDRESSES = text(
    "SELECT v.name, host(n.ip_address) AS address FROM virtual_machines v"
    " LEFT JOIN nics n ON n.vm_id = v.id AND n.removed IS NULL AND n.is_default"
    " WHERE v.id = ANY(CAST(:vms AS bigint[])) ORDER BY v.id"
)


def addresses_of_guests(connection: Connection, vm_ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return the name of each of these VMs, and the address of its default NIC or None."""
    return connection.execute(_ADDRESSES, {"vms": int_array(vm_ids)}).all()


def hypervisors_of_vms(connection: Connection, vm_ids: Sequence[int]) -> Sequence[str]:
    """Return the hypervisors of these VMs in alphabetical order, without repetitions."""
    query = text(
        "SELECT DISTINCT hypervisor FROM virtual_machines WHERE id = ANY(CAST(:vms AS bigint[])) ORDER BY 1"
    )
    return connection.execute(query, {"vms": int_array(vm_ids)}).scalars().all()
