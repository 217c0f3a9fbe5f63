"""The broken VMs of managed deployments, and the number of tries to heal them."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import Connection, text

from bulkdeploy.domain.jobs import GUEST_ENDED
from bulkdeploy.store.database.arrays import int_array

FIRST_PAUSE_S, LONGEST_PAUSE_S, CHECK_EVERY_S = 30, 3600, 10

_BROKEN = text(
    "SELECT v.id FROM virtual_machines v"
    " LEFT JOIN LATERAL (SELECT j.kind, j.status, j.params FROM async_jobs j WHERE j.instance_id = v.id"
    "   AND j.instance_type = 'VirtualMachine' ORDER BY j.id DESC LIMIT 1) last ON true"
    " WHERE v.id = ANY(CAST(:vms AS bigint[])) AND coalesce(last.status, 1) <> 0 AND (v.state = 'Error'"
    "   OR (v.state = 'Stopped' AND last.kind IS NOT NULL AND v.updated < now() - make_interval(secs => :seconds)"
    "     AND NOT (last.kind = 'stop_virtual_machine' AND last.status = 1"
    "       AND NOT last.params ? :guest_ended)))"
    " ORDER BY v.id"
)


def broken_vms(connection: Connection, vm_ids: Collection[int], after_s: int) -> list[int]:
    """Return the ids of the VMs out of ``vm_ids`` that must be healed.

    These are VMs in state Error, and VMs that have been Stopped for at least ``after_s`` seconds without a call. A
    VM that was stopped by its newest job was stopped on purpose, unless its guest had ended before. VMs with an
    unfinished job are omitted. Stopped VMs whose jobs were deleted are omitted as well, because they may have been
    stopped on purpose.
    """
    wanted = {"vms": int_array(vm_ids), "seconds": after_s, "guest_ended": GUEST_ENDED}
    return list(connection.execute(_BROKEN, wanted).scalars())


_HEALTHY = text(
    "UPDATE managed_deployments SET heal_tries = 0, heal_broken = 0,"
    " next_heal = now() + make_interval(secs => :every) WHERE deployment_id = :id"
)


def note_healthy(connection: Connection, deployment_id: int) -> None:
    """Reset the number of tries, because no VM of the deployment is broken."""
    connection.execute(_HEALTHY, {"id": deployment_id, "every": CHECK_EVERY_S})


_HEALING = text(
    "UPDATE managed_deployments SET heal_broken = :broken,"
    " heal_tries = CASE WHEN :broken < heal_broken THEN 1 ELSE heal_tries + 1 END, next_heal = now()"
    " + make_interval(secs => CASE WHEN :broken < heal_broken THEN :first"
    "   ELSE least(:longest, :first * power(2, least(heal_tries, 20))) END)"
    " WHERE deployment_id = :id RETURNING heal_tries"
)


def note_healing(connection: Connection, deployment_id: int, broken: int) -> int:
    """Count a healing attempt, and return the number of consecutive attempts that did not reduce the broken VMs.

    After each such attempt, the pause before the next one doubles, up to one hour.
    """
    wanted = {"id": deployment_id, "broken": broken, "first": FIRST_PAUSE_S, "longest": LONGEST_PAUSE_S}
    return int(connection.execute(_HEALING, wanted).scalar_one())


def deployment_uuid(connection: Connection, deployment_id: int) -> UUID:
    """Return the uuid of a deployment, by which API clients identify it."""
    query = text("SELECT uuid FROM deployments WHERE id = :id")
    found: UUID = connection.execute(query, {"id": deployment_id}).scalar_one()
    return found
