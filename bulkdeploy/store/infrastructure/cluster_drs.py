"""DRS plans, read from the jobs that executed them, and the clusters that are due for a plan."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, case, cast, select, text

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, id_in
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.tables.jobs import async_jobs
from bulkdeploy.store.tables.topology import clusters, hosts
from bulkdeploy.store.tables.virtual_machines import virtual_machines

BALANCE = "balance_zone"
"""The kind of the jobs that balance clusters."""

STATUS = {JobStatus.IN_PROGRESS: "IN_PROGRESS", JobStatus.SUCCEEDED: "SUCCEEDED", JobStatus.FAILED: "FAILED"}
CLUSTER = cast(async_jobs.c.params["cluster_id"].astext, BigInteger)


def list_plans(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of plans, the newest first. A plan is kept as long as its job."""
    filters: Filters = {"id": by_id(async_jobs.c.id), "clusterid": by_id(clusters.c.id)}
    rows, count = fetch_rows(connection, filtered(_query(), filters, arguments), paging)
    return Page(_with_migrations(connection, rows), count)


def _query() -> Select[Any]:
    job = async_jobs.c
    return (
        select(
            job.id.label("_id"),
            job.uuid.label("id"),
            job.uuid.label("eventid"),
            clusters.c.uuid.label("clusterid"),
            case((job.params["automatic"].astext == "true", "AUTOMATED"), else_="MANUAL").label("type"),
            case((job.status == JobStatus.IN_PROGRESS, "IN_PROGRESS"), else_="COMPLETED").label("status"),
            job.created,
        )
        .join(clusters, clusters.c.id == CLUSTER)
        .where(job.kind == BALANCE, job.params.has_key("cluster_id"))
        .order_by(job.id.desc())
    )


def _with_migrations(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    job, source = async_jobs.c, hosts.alias("source")
    query = (
        select(
            job.parent_id,
            job.uuid.label("jobid"),
            job.status,
            virtual_machines.c.uuid.label("virtualmachineid"),
            virtual_machines.c.name.label("virtualmachinename"),
            source.c.uuid.label("sourcehostid"),
            source.c.name.label("sourcehostname"),
            hosts.c.uuid.label("destinationhostid"),
            hosts.c.name.label("destinationhostname"),
        )
        .join(virtual_machines, virtual_machines.c.id == job.instance_id)
        .join(hosts, hosts.c.id == cast(job.params["host_id"].astext, BigInteger))
        .outerjoin(source, source.c.id == cast(job.params["from_host_id"].astext, BigInteger))
        .where(id_in(job.parent_id, [row["_id"] for row in rows]))
        .order_by(job.id)
    )
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for one in connection.execute(query).mappings():
        move = {name: value for name, value in one.items() if name not in ("parent_id", "status")}
        found[one["parent_id"]].append(move | {"jobstatus": STATUS[JobStatus(one["status"])]})
    return [
        {**{name: value for name, value in row.items() if name != "_id"}, "migrations": found[row["_id"]]}
        for row in rows
    ]


_IS_BALANCED = text(
    "SELECT EXISTS (SELECT FROM async_jobs WHERE kind = 'balance_zone' AND instance_id = :zone AND status = 0"
    " AND CAST(coalesce(params ->> 'cluster_id', :cluster) AS bigint) = :id)"
)
_LAST = text(
    "SELECT EXISTS (SELECT FROM async_jobs WHERE kind = 'balance_zone' AND instance_id = :zone"
    " AND params ->> 'cluster_id' = :cluster AND (status = 0 OR created > now() - make_interval(mins => :minutes)))"
)


def is_balanced_now(connection: Connection, zone_id: int, cluster_id: int) -> bool:
    """Return whether an unfinished job balances this cluster or its zone."""
    values = {"zone": zone_id, "cluster": str(cluster_id), "id": cluster_id}
    return bool(connection.execute(_IS_BALANCED, values).scalar_one())


def was_balanced(connection: Connection, zone_id: int, cluster_id: int, *, minutes: int) -> bool:
    """Return whether a job balances this cluster now, or was created for it in the last ``minutes``."""
    values = {"zone": zone_id, "cluster": str(cluster_id), "minutes": minutes}
    return bool(connection.execute(_LAST, values).scalar_one())


def enabled_clusters(connection: Connection) -> list[tuple[EntityRef, int]]:
    """Return the live, enabled clusters with the ids of their zones, by id."""
    cluster = clusters.c
    query = select(cluster.id, cluster.uuid, cluster.name, cluster.zone_id).where(
        cluster.removed.is_(None), cluster.allocation_state == "Enabled"
    )
    rows = connection.execute(query.order_by(cluster.id))
    return [(EntityRef(Entity.CLUSTER, row.id, row.uuid, row.name), row.zone_id) for row in rows]


def hosts_of_cluster(connection: Connection, cluster_id: int) -> set[int]:
    """Return the ids of the live hosts of a cluster."""
    query = select(hosts.c.id).where(hosts.c.cluster_id == cluster_id, hosts.c.removed.is_(None))
    return set(connection.execute(query).scalars())
