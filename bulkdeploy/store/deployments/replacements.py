"""Rows of rolling replacements, and the VMs that each of them has to replace."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, text, update

from bulkdeploy.domain.deployments.replacements import ReplacementState
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.deployments.managed_deployments import MEMBERS, REMOVING
from bulkdeploy.store.tables.managed_deployments import replacements
from bulkdeploy.store.tables.offerings import templates

TEMPLATE = "templateid"
PENDING, UNDERWAY, DONE, FAILED, COUNTED = "Pending", "Underway", "Done", "Failed", "Counted"


def insert_replacement(connection: Connection, values: Mapping[str, Any], vm_ids: Collection[int]) -> None:
    """Insert a replacement in state "in progress", and the VMs that it must replace."""
    row = {**values, "state": ReplacementState.IN_PROGRESS.value, "vm_count": len(vm_ids)}
    new_id = connection.execute(insert(replacements).values(row).returning(replacements.c.id)).scalar_one()
    connection.execute(
        text(
            "INSERT INTO replaced_vms (replacement_id, vm_id, state)"
            " SELECT :id, unnest(CAST(:vms AS bigint[])), :state"
        ),
        {"id": new_id, "vms": int_array(sorted(vm_ids)), "state": PENDING},
    )


def open_replacement(connection: Connection, deployment_id: int) -> Row[Any] | None:
    """Return the unfinished replacement of a deployment, or None. The caller has locked the deployment."""
    query = select(replacements).where(replacements.c.deployment_id == deployment_id)
    return connection.execute(query.where(replacements.c.completed.is_(None))).first()


def is_in_progress(connection: Connection, deployment_id: int) -> bool:
    """Return whether a replacement of the deployment's VMs is in progress, that is, neither paused nor failed."""
    replacement = open_replacement(connection, deployment_id)
    return replacement is not None and replacement.state == ReplacementState.IN_PROGRESS


def last_replacement(connection: Connection, deployment_id: int) -> Row[Any] | None:
    """Return the newest replacement of a deployment, or None."""
    query = select(replacements).where(replacements.c.deployment_id == deployment_id)
    return connection.execute(query.order_by(replacements.c.id.desc()).limit(1)).first()


def recorded_template(connection: Connection, parameters: Mapping[str, str]) -> EntityRef | None:
    """Return the template that recorded call parameters name for all VMs.

    Returns None if the parameters name no template or several templates, or if the template does not exist.
    """
    uuids = {value for name, value in parameters.items() if name.lower().rpartition(".")[2] == TEMPLATE}
    if len(uuids) != 1:
        return None
    query = select(templates.c.id, templates.c.uuid, templates.c.name).where(templates.c.uuid == uuids.pop())
    found = connection.execute(query).first()
    return None if found is None else EntityRef(Entity.TEMPLATE, *found)


def has_linked_user_data(connection: Connection, template: EntityRef) -> bool:
    """Return whether VMs of a template get registered user data unless a call provides other user data."""
    query = select(templates.c.user_data_id.is_not(None)).where(templates.c.id == template.id)
    return bool(connection.execute(query).scalar())


def update_replacement(connection: Connection, replacement_id: int, values: Mapping[str, Any]) -> None:
    """Update columns of a replacement."""
    connection.execute(update(replacements).where(replacements.c.id == replacement_id).values(values))


def end_step(connection: Connection, replacement_id: int, state: ReplacementState, failures: int) -> None:
    """Write the state and the number of failures of a replacement after a step."""
    completed = func.now() if state is ReplacementState.COMPLETED else None
    values = {"state": state.value, "failures": failures, "completed": completed}
    update_replacement(connection, replacement_id, values)


def close_replacement(connection: Connection, deployment_id: int, state: ReplacementState) -> None:
    """End the open replacement of a deployment, if there is one, with this state."""
    changed = update(replacements).where(replacements.c.deployment_id == deployment_id)
    changed = changed.where(replacements.c.completed.is_(None))
    connection.execute(changed.values(state=state.value, completed=func.now()))


def states_of_vms(connection: Connection, replacement_id: int) -> dict[int, str]:
    """Return the state of each VM that a replacement is to replace, by VM id."""
    query = text("SELECT vm_id, state FROM replaced_vms WHERE replacement_id = :id")
    return {row.vm_id: row.state for row in connection.execute(query, {"id": replacement_id})}


def mark_vms(connection: Connection, replacement_id: int, vm_ids: Collection[int], state: str) -> None:
    """Set the state of some VMs of a replacement."""
    connection.execute(
        text(
            "UPDATE replaced_vms SET state = :state"
            " WHERE replacement_id = :id AND vm_id = ANY(CAST(:vms AS bigint[]))"
        ),
        {"id": replacement_id, "vms": int_array(sorted(vm_ids)), "state": state},
    )


def note_counted(connection: Connection, replacement_id: int, vm_ids: Collection[int]) -> None:
    """Record that the failures of these new VMs have been counted, so that they are not counted again."""
    connection.execute(
        text(
            "INSERT INTO replaced_vms (replacement_id, vm_id, state)"
            " SELECT :id, unnest(CAST(:vms AS bigint[])), :state"
        ),
        {"id": replacement_id, "vms": int_array(sorted(vm_ids)), "state": COUNTED},
    )


_SETTLE = text(
    "UPDATE replaced_vms r SET state = CASE WHEN last.status = 1 THEN 'Done' ELSE 'Failed' END"
    " FROM (SELECT DISTINCT ON (j.instance_id) j.instance_id, j.status FROM async_jobs j"
    "   WHERE j.kind = :kind AND j.instance_type = 'VirtualMachine' AND j.created >= :since"
    "   AND j.instance_id IN (SELECT vm_id FROM replaced_vms WHERE replacement_id = :id AND state = 'Underway')"
    "   ORDER BY j.instance_id, j.id DESC) last"
    " WHERE r.replacement_id = :id AND r.state = 'Underway' AND r.vm_id = last.instance_id AND last.status <> 0"
    " RETURNING r.state"
)


def settle_vms(connection: Connection, replacement: Row[Any], kind: str) -> int:
    """Record the results of this kind of jobs, which replace VMs in place, and return the number of failed VMs."""
    wanted = {"id": replacement.id, "since": replacement.created, "kind": kind}
    return sum(state == FAILED for state in connection.execute(_SETTLE, wanted).scalars())


_SHOWN = text(
    "SELECT DISTINCT ON (r.deployment_id) r.* FROM replacements r"
    " WHERE r.deployment_id = ANY(CAST(:ids AS bigint[])) ORDER BY r.deployment_id, r.id DESC"
)

_BY_CLUSTER = text(
    "SELECT member.managed, c.uuid AS cluster_id, c.name, count(*) AS vms,"  # noqa: S608 - a constant
    "   count(*) FILTER (WHERE coalesce(r.state, 'Done') IN ('Done', 'Counted')) AS replaced,"
    "   count(*) FILTER (WHERE coalesce(r.state, 'Done') <> 'Pending' AND g.silent_since IS NOT NULL) AS silent"
    f" FROM ({MEMBERS}) AS member JOIN unnest(CAST(:ids AS bigint[]), CAST(:replacements AS bigint[]))"
    "   AS shown(deployment_id, replacement_id) ON shown.deployment_id = member.managed"
    " LEFT JOIN replaced_vms r ON r.replacement_id = shown.replacement_id AND r.vm_id = member.id"
    " LEFT JOIN clusters c ON c.id = member.cluster_id LEFT JOIN managed_deployments m"
    "   ON m.deployment_id = member.managed AND m.health_check IS NOT NULL"
    " LEFT JOIN guest_health g ON g.vm_id = member.id AND m.deployment_id IS NOT NULL"
    " GROUP BY 1, 2, 3 ORDER BY c.name"
)
"""The VMs that each deployment has by cluster. VMs that were made since the replacement began are replaced ones."""


def read_replacements(connection: Connection, deployment_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the list fields of the newest replacement of each of these deployments, by deployment id."""
    rows = connection.execute(_SHOWN, {"ids": int_array(deployment_ids)}).all()
    if not rows:
        return {}
    clusters: dict[int, list[dict[str, Any]]] = {}
    unanswered: Counter[int] = Counter()
    wanted = {
        "ids": int_array([row.deployment_id for row in rows]),
        "removing": list(REMOVING),
        "replacements": int_array([row.id for row in rows]),
    }
    for row in connection.execute(_BY_CLUSTER, wanted):
        shown = {"clusterid": row.cluster_id, "clustername": row.name, "count": row.vms, "replaced": row.replaced}
        clusters.setdefault(row.managed, []).append(shown)
        unanswered[row.managed] += row.silent
    return {
        row.deployment_id: {
            "method": row.method,
            "state": row.state,
            "count": row.vm_count,
            "failed": row.failures,
            "unanswered": unanswered[row.deployment_id],
            "maxsurge": row.max_surge,
            "maxunavailable": row.max_unavailable,
            "maxfailures": row.max_failures,
            "created": row.created,
            "completed": row.completed,
            "clusters": clusters.get(row.deployment_id, []),
            "replaced": sum(cluster["replaced"] for cluster in clusters.get(row.deployment_id, [])),
        }
        for row in rows
    }
