"""Rows of managed deployments: desired size, VMs, and the time of the next comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, or_, select, text, update

from bulkdeploy.domain.deployments.deployment import RecordedCall
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.tables.managed_deployments import managed_deployments
from bulkdeploy.store.tables.virtual_machines import deployments

REMOVING = ("destroy_virtual_machine", "expunge_virtual_machine")
"""The kinds of jobs after which a VM is no member any more."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 10, 3600


def parts_of_deployment(deployment_id: int) -> Select[Any]:
    """Return a query for the ids of the deployment, of its parts, and of the deployments that extended it."""
    deployment = deployments.c
    return select(deployment.id).where(
        or_(
            deployment.id == deployment_id,
            deployment.batch_id == deployment_id,
            deployment.grown_from == deployment_id,
        )
    )


def insert_managed(connection: Connection, deployment_id: int, recorded: RecordedCall, desired: int) -> None:
    """Insert the row that makes a deployment managed. ``desired`` is the number of VMs that it should have."""
    values = {
        "deployment_id": deployment_id,
        "desired_count": desired,
        "scale_in_policy": recorded.scale_in_policy.value,
        "command": recorded.command,
        "parameters": dict(recorded.parameters),
        "autoheal": recorded.autoheal,
    }
    if recorded.heal_after_s is not None:
        values["heal_after"] = recorded.heal_after_s
    if recorded.health_check is not None:
        values["health_check"] = str(recorded.health_check)
    if recorded.health_timeout_s is not None:
        values["health_timeout"] = recorded.health_timeout_s
    connection.execute(insert(managed_deployments).values(values))


def lock_managed(connection: Connection, deployment_id: int) -> Row[Any] | None:
    """Lock and return the row of a managed deployment, or return None if the deployment is not managed."""
    query = select(managed_deployments).where(managed_deployments.c.deployment_id == deployment_id)
    return connection.execute(query.with_for_update()).first()


def update_managed(connection: Connection, deployment_id: int, values: Mapping[str, Any]) -> None:
    """Update columns of a managed deployment, and make its next comparison due immediately."""
    changed = update(managed_deployments).where(managed_deployments.c.deployment_id == deployment_id)
    connection.execute(changed.values({"next_check": func.now(), "failures": 0, "last_error": None, **values}))


def delete_managed(connection: Connection, deployment_id: int) -> None:
    """Stop managing a deployment. Its VMs are kept."""
    connection.execute(delete(managed_deployments).where(managed_deployments.c.deployment_id == deployment_id))


MEMBERS = (
    "SELECT v.id, v.uuid, v.name, v.state, v.host_id, v.cluster_id, v.delete_protection, d.managed,"
    " EXISTS (SELECT FROM async_jobs w WHERE w.instance_id = v.id AND w.instance_type = 'VirtualMachine'"
    "   AND w.status = 0) AS has_job"
    " FROM (SELECT id, coalesce(grown_from, batch_id, id) AS managed FROM deployments"
    "   WHERE id = ANY(CAST(:ids AS bigint[])) OR batch_id = ANY(CAST(:ids AS bigint[]))"
    "   OR grown_from = ANY(CAST(:ids AS bigint[]))) AS d"
    " JOIN virtual_machines v ON v.deployment_id = d.id"
    " WHERE v.removed IS NULL AND v.state NOT IN ('Destroyed', 'Expunging')"
    " AND NOT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.instance_type = 'VirtualMachine'"
    "   AND j.status = 0 AND j.kind = ANY(:removing))"
)
"""The VMs of managed deployments, by the ids of these, without those that are being destroyed."""

_MEMBERS_IN_ORDER = text(f"{MEMBERS} ORDER BY v.id")

_COUNT = text(f"SELECT managed, count(*) AS vms FROM ({MEMBERS}) AS member GROUP BY managed")  # noqa: S608 - a constant


def members_of(connection: Connection, deployment_id: int) -> Sequence[Row[Any]]:
    """Return the VMs of a managed deployment, oldest first, except those that are being destroyed."""
    wanted = {"ids": int_array([deployment_id]), "removing": list(REMOVING)}
    return connection.execute(_MEMBERS_IN_ORDER, wanted).all()


def read_managed(connection: Connection, deployment_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the list fields of managed deployments by id. Deployments that are not managed are omitted."""
    managed = managed_deployments.c
    query = select(managed_deployments).where(managed.deployment_id.in_(deployment_ids))
    rows = {row.deployment_id: row for row in connection.execute(query)}
    if not rows:
        return {}
    counts = connection.execute(_COUNT, {"ids": int_array(rows), "removing": list(REMOVING)})
    actual = {row.managed: row.vms for row in counts}
    return {
        deployment_id: {
            "desiredcount": row.desired_count,
            "actualcount": actual.get(deployment_id, 0),
            "scaleinpolicy": row.scale_in_policy,
            "lasterror": row.last_error,
            "autoheal": row.autoheal,
            "healafter": row.heal_after,
            "healtries": row.heal_tries,
            "healthcheck": row.health_check,
            "healthtimeout": row.health_timeout if row.health_check is not None else None,
        }
        for deployment_id, row in rows.items()
    }


_DUE = text(
    f"SELECT m.deployment_id, d.user_id FROM managed_deployments m"  # noqa: S608 - constants of this module
    " JOIN deployments d ON d.id = m.deployment_id"
    " JOIN accounts a ON a.id = d.account_id AND a.removed IS NULL"
    " WHERE m.next_check <= now() AND (m.desired_count <> (SELECT count(*) FROM"
    f" ({MEMBERS.replace('ANY(CAST(:ids AS bigint[]))', 'm.deployment_id')}) AS member)"
    "   OR EXISTS (SELECT FROM replacements r WHERE r.deployment_id = m.deployment_id AND r.completed IS NULL"
    "     AND r.state = 'InProgress')"
    "   OR (m.autoheal AND m.next_heal <= now()))"
    " ORDER BY m.next_check LIMIT :most"
)


def due_deployments(connection: Connection, most: int) -> list[tuple[int, int]]:
    """Return the deployments that have too few or too many VMs, replace VMs, or are due for a healing check.

    Each entry consists of the deployment's id and the id of its user.
    """
    rows = connection.execute(_DUE, {"removing": list(REMOVING), "most": most})
    return [(row.deployment_id, row.user_id) for row in rows]


_LOCK_DUE = text(
    "SELECT * FROM managed_deployments WHERE deployment_id = :id AND next_check <= now() FOR UPDATE SKIP LOCKED"
)


def lock_if_due(connection: Connection, deployment_id: int) -> Row[Any] | None:
    """Lock and return the row of a managed deployment that is due.

    Returns None if another transaction processes the deployment now or has just done so.
    """
    return connection.execute(_LOCK_DUE, {"id": deployment_id}).first()


def is_heal_due(connection: Connection, deployment_id: int) -> bool:
    """Return whether the next check for broken VMs of a managed deployment is due."""
    query = text("SELECT next_heal <= now() FROM managed_deployments WHERE deployment_id = :id")
    return bool(connection.execute(query, {"id": deployment_id}).scalar_one())


def put_off(connection: Connection, deployment_id: int, seconds: float) -> None:
    """Postpone the next check of a deployment by ``seconds``, the time that newly created jobs need."""
    values = {"failures": 0, "last_error": None}
    pause = text("now() + make_interval(secs => :seconds)").bindparams(seconds=seconds)
    changed = update(managed_deployments).where(managed_deployments.c.deployment_id == deployment_id)
    connection.execute(changed.values({**values, "next_check": pause}))


_FAILED = text(
    "UPDATE managed_deployments SET failures = failures + 1, last_error = :why, next_check = now()"
    " + make_interval(secs => least(:longest, :first * power(2, least(failures, 20)))) WHERE deployment_id = :id"
    " RETURNING failures"
)


def note_failure(connection: Connection, deployment_id: int, why: str) -> int:
    """Record the reason of a failed attempt, and return the number of consecutive failures.

    The pause before the next attempt doubles with each failure, up to one hour.
    """
    wanted = {"id": deployment_id, "why": why, "first": FIRST_PAUSE_S, "longest": LONGEST_PAUSE_S}
    return int(connection.execute(_FAILED, wanted).scalar_one())
