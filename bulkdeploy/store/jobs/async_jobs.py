"""Jobs as API clients see them: one job, or a page of jobs. Expired jobs are not returned."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import orjson
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    Uuid,
    any_,
    bindparam,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
)

from bulkdeploy.domain.compatibility import MANAGEMENT_SERVER_ID
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.jobs import InstanceType, JobStatus
from bulkdeploy.store.configuration.configurations import global_value
from bulkdeploy.store.rows.filters import Arguments, Condition, Filters, always, by_id, equal, filtered, keyword
from bulkdeploy.store.rows.listing import Orders, Page, Paging, fetch_page, ordered
from bulkdeploy.store.rows.visibility import Visibility, account_name, with_owner
from bulkdeploy.store.tables.accounts import accounts, domains, users
from bulkdeploy.store.tables.jobs import async_jobs
from bulkdeploy.store.tables.virtual_machines import deployments

EXPIRY = "job.expire.minutes"

MOVING_KINDS = ("prepare_host_for_maintenance", "migrate_host", "evacuate_host")
"""The kinds of jobs on a host that move VMs by child jobs."""


def _since(moment: datetime) -> Condition:
    return async_jobs.c.created >= moment


def _off_host(host: EntityRef) -> Condition:
    """Return the SQL condition for the jobs that move VMs off a host.

    These are the child jobs of the host's newest job that is unfinished or has child jobs.
    """
    parent, made = async_jobs.alias("parent"), async_jobs.alias("made")
    has_made = exists().where(made.c.parent_id == parent.c.id)
    newest = (
        select(func.max(parent.c.id))
        .where(parent.c.instance_id == host.id, parent.c.instance_type == InstanceType.HOST)
        .where(parent.c.kind.in_(MOVING_KINDS))
        .where(or_(parent.c.status == JobStatus.IN_PROGRESS, has_made))
    )
    return async_jobs.c.parent_id == newest.scalar_subquery()


FILTERS: Filters = {
    "keyword": keyword(async_jobs.c.cmd),
    "startdate": _since,
    "deploymentid": by_id(async_jobs.c.deployment_id),
    "hostid": _off_host,
    "managementserverid": always(MANAGEMENT_SERVER_ID),
    "resourceid": by_id(async_jobs.c.instance_id),
    "resourcetype": equal(async_jobs.c.instance_type),
}


ORDERS: Orders = {
    "cmd": async_jobs.c.cmd,
    "jobstatus": async_jobs.c.status,
    "account": account_name(),
    "created": async_jobs.c.created,
    "completed": async_jobs.c.completed,
}


def _minutes() -> ColumnElement[int]:
    """Return the SQL expression for the minutes after which finished jobs expire."""
    return global_value(EXPIRY).cast(Integer)


def _jobs() -> Select[Any]:
    """Return a query for all jobs that have not expired."""
    job = async_jobs.c
    tables = (
        with_owner(async_jobs, job.account_id)
        .outerjoin(users, users.c.id == job.user_id)
        .outerjoin(deployments, deployments.c.id == job.deployment_id)
    )
    return (
        select(
            job.account_id,
            job.uuid.label("jobid"),
            accounts.c.uuid.label("accountid"),
            account_name(),
            domains.c.uuid.label("domainid"),
            domains.c.path.label("domainpath"),
            users.c.uuid.label("userid"),
            job.cmd,
            job.status.label("jobstatus"),
            literal(0).label("jobprocstatus"),
            job.result_code.label("jobresultcode"),
            job.result.label("jobresult"),
            job.instance_type.label("jobinstancetype"),
            job.instance_uuid.label("jobinstanceid"),
            deployments.c.uuid.label("deploymentid"),
            job.created,
            job.completed,
        )
        .select_from(tables)
        .where(
            or_(
                job.status == JobStatus.IN_PROGRESS,
                job.completed > func.now() - func.make_interval(0, 0, 0, 0, 0, _minutes()),
            )
        )
    )


FoundJob: TypeAlias = tuple[int, dict[str, Any]]
"""The account that made a job, and the job by wire names."""

JOBS = _jobs()
BY_UUIDS = JOBS.where(async_jobs.c.uuid == any_(cast(bindparam("uuids", "{}", Text), ARRAY(Uuid))))
BY_NUMBER = JOBS.where(async_jobs.c.id == bindparam("id", type_=BigInteger))
"""Built once: building it costs more than all the rest of the call in this process."""


def find_job(connection: Connection, job_id: str) -> FoundJob | None:
    """Return the job with this uuid or internal number, or None if the job was deleted or never existed."""
    if job_id.isdecimal():
        found = connection.execute(BY_NUMBER, {"id": int(job_id)})
    else:
        found = connection.execute(BY_UUIDS, {"uuids": "{" + str(UUID(job_id)) + "}"})
    row = found.mappings().first()
    return None if row is None else found_job(row)


def found_job(row: Mapping[Any, Any]) -> FoundJob:
    """Return the account and the response fields of a row of JOBS."""
    return row["account_id"], _wire(dict(row))


def newest_job_of(connection: Connection, instance_type: str, instance_id: int) -> int | None:
    """Return the id of the newest job of an instance, or None if the instance has no job."""
    job = async_jobs.c
    query = (
        select(job.id)
        .where(job.instance_id == instance_id, job.instance_type == instance_type)
        .order_by(job.id.desc())
        .limit(1)
    )
    return connection.execute(query).scalar()


def list_async_jobs(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the jobs of visible accounts, in creation order."""
    query = filtered(JOBS.where(visibility.condition()), FILTERS, arguments)
    page = fetch_page(connection, ordered(query, ORDERS, arguments, async_jobs.c.id), paging)
    return Page([_wire(dict(row)) for row in page.rows], page.count)


def _wire(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with its result as an object (cloudstack-protocol.md 3); the envelope hides fields by role."""
    del row["account_id"]
    if row["jobresult"] is not None:
        row["jobresult"] = orjson.loads(row["jobresult"])
        row["jobresulttype"] = "object"
    return row
