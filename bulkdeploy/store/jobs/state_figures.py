"""Figures from rows alone: the amount of work, its waiting time, and the inventory."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from bulkdeploy.domain.virtual_machines.virtual_machines import VmState

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
JOB_STATES = ("queued", "running", "dropped", "waiting", "throttled")
"""Of unfinished jobs. Dropped: leased, and the lease ran out. Throttled: waiting for a place with their host."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """A number of waiting objects, and the age of the oldest in seconds, by the database's clock."""

    count: int = 0
    oldest_s: float = 0.0


class HostsInState(NamedTuple):
    """The number of hosts of a zone that have the same state and the same resource state."""

    zone: UUID
    state: str
    resource_state: str
    hosts: int


_JOBS = text(
    "SELECT CASE WHEN phase = 'waiting' AND host_id IS NOT NULL THEN 'throttled'"
    "   WHEN phase = 'running' AND lease_until < now() THEN 'dropped' ELSE phase END AS state,"
    " count(*) AS jobs, extract(epoch FROM now() - min(created)) AS oldest_s"
    " FROM async_jobs WHERE status = 0 GROUP BY 1"
)

_HOSTS = text(
    "SELECT z.uuid, h.state, h.resource_state, count(*) FROM hosts h JOIN zones z ON z.id = h.zone_id"
    " WHERE h.removed IS NULL AND (h.state <> 'Up' OR h.resource_state <> 'Enabled')"
    " GROUP BY z.id, h.state, h.resource_state ORDER BY z.id, h.state, h.resource_state"
)
_VMS = text("SELECT state, count(*) AS vms FROM virtual_machines WHERE removed IS NULL GROUP BY 1")

_OUTBOX = text(
    "SELECT count(*) AS rows, coalesce(extract(epoch FROM now() - min(created)), 0) AS oldest_s FROM outbox"
    " WHERE created <= now()"
)


def unfinished_jobs(connection: Connection) -> dict[str, Backlog]:
    """Return the number and the greatest age of unfinished jobs for every state of JOB_STATES."""
    found = {row.state: Backlog(row.jobs, float(row.oldest_s)) for row in connection.execute(_JOBS)}
    return {state: found.get(state, Backlog()) for state in JOB_STATES}


def unsent_messages(connection: Connection) -> Backlog:
    """Return the number and the greatest age of messages that are due and were not sent yet."""
    row = connection.execute(_OUTBOX).one()
    return Backlog(row.rows, float(row.oldest_s))


def vms_by_state(connection: Connection) -> dict[str, int]:
    """Return the number of VMs in every state. Expunged VMs are not counted."""
    found = {row.state: row.vms for row in connection.execute(_VMS)}
    return {state.value: found.get(state, 0) for state in VmState}


def hosts_by_state(connection: Connection) -> list[HostsInState]:
    """Return the number of hosts that are not both Up and Enabled, by zone, state and resource state."""
    return [HostsInState(*row) for row in connection.execute(_HOSTS)]


@dataclass(frozen=True, slots=True)
class RecentJobs:
    """The number of finished and failed jobs of the last hour.

    Attributes:
        workers: the number of workers that have leases now.
        failures: pairs of a reason and the number of jobs that failed for this reason, the most frequent first. In
            a reason, the names of single VMs and hosts are replaced by a star.
    """

    workers: int
    finished: int
    failed: int
    failures: tuple[tuple[str, int], ...]


_RECENT = text(
    "SELECT (SELECT count(DISTINCT lease_owner) FROM async_jobs WHERE status = 0 AND lease_until >= now())"
    " AS workers,"
    " count(*) AS finished, count(*) FILTER (WHERE status = 2) AS failed"
    " FROM async_jobs WHERE status <> 0 AND completed > now() - interval '1 hour'"
)

_FAILURES = text(
    "SELECT reason, count(*) AS jobs FROM ("
    "  SELECT regexp_replace(regexp_replace(CAST(result AS jsonb) ->> 'errortext',"
    "    '\\mi-[0-9]+-[0-9]+-\\w+', '*', 'g'), '\\mon host [\\w.-]+', 'on host *', 'g') AS reason"
    "  FROM async_jobs WHERE status = 2 AND completed > now() - CAST(:period AS interval)"
    "  ORDER BY completed DESC LIMIT 1000) latest"
    " WHERE reason IS NOT NULL GROUP BY reason ORDER BY jobs DESC, reason LIMIT 10"
)


def recent_jobs(connection: Connection) -> RecentJobs:
    """Return the counts of the jobs that ended within the last hour, and the number of active workers."""
    row = connection.execute(_RECENT).one()
    failures = tuple((found.reason, found.jobs) for found in connection.execute(_FAILURES, {"period": HOUR}))
    return RecentJobs(row.workers, row.finished, row.failed, failures)


@dataclass(frozen=True, slots=True)
class JobHistory:
    """The results of the jobs that ended in the last day, by hour.

    Attributes:
        hours: for each of 24 hours: its beginning, the number of successful deployments of a VM, the number of
            failed deployments, and the number of ended jobs of all kinds.
        failures: pairs of a reason and the number of jobs of the last day that failed for this reason.
    """

    hours: tuple[tuple[datetime, int, int, int], ...]
    failures: tuple[tuple[str, int], ...]


_HOURS = text(
    "SELECT hour AS begun, coalesce(deployed, 0) AS deployed, coalesce(failed, 0) AS failed,"
    " coalesce(finished, 0) AS finished"
    " FROM generate_series(date_trunc('hour', now()) - interval '23 hours', now(), interval '1 hour') hour"
    " LEFT JOIN (SELECT date_trunc('hour', completed) AS begun,"
    "  count(*) FILTER (WHERE kind = :kind AND status = 1) AS deployed,"
    "  count(*) FILTER (WHERE kind = :kind AND status = 2) AS failed, count(*) AS finished"
    "  FROM async_jobs WHERE status <> 0 AND completed >= date_trunc('hour', now()) - interval '23 hours'"
    "  GROUP BY 1) ended ON ended.begun = hour ORDER BY 1"
)


def job_history(connection: Connection, deploying: str) -> JobHistory:
    """Return the outcomes of the jobs that ended within the last day, as far as they are still stored.

    ``deploying`` is the kind of the jobs that deploy a VM.
    """
    hours = connection.execute(_HOURS, {"kind": deploying})
    failures = connection.execute(_FAILURES, {"period": DAY})
    return JobHistory(
        tuple((row.begun, row.deployed, row.failed, row.finished) for row in hours),
        tuple((row.reason, row.jobs) for row in failures),
    )
