"""The load of the service, as its one management server reports it."""

from sqlalchemy import Connection, func, select

from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.store.tables.jobs import async_jobs
from bulkdeploy.store.tables.topology import hosts


def work_of_service(connection: Connection) -> dict[str, int]:
    """Return the number of hosts that are Up, and of jobs that have not finished."""
    up = select(func.count()).where(hosts.c.state == HostState.UP, hosts.c.removed.is_(None)).scalar_subquery()
    pending = select(func.count()).where(async_jobs.c.status == JobStatus.IN_PROGRESS).scalar_subquery()
    row = connection.execute(select(up.label("up"), pending.label("pending"))).one()
    return {"agentscount": row.up, "pendingjobscount": row.pending}
