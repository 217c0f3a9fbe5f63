"""Figures about the state of the service, read from the database and from Redis on request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bulkdeploy.queue.job_queue import QueueUnavailable
from bulkdeploy.services.system import System
from bulkdeploy.store.availability.host_ha import count_states
from bulkdeploy.store.availability.out_of_band_management import count_power_states
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.followed_clouds import picture_age_s
from bulkdeploy.store.hypervisors.usage import usage_of_hosts
from bulkdeploy.store.jobs.state_figures import Backlog, unfinished_jobs, unsent_messages, vms_by_state
from bulkdeploy.store.ledger.capacity import capacity_of_zones


@dataclass(frozen=True, slots=True)
class StateFigures:
    """Figures from the database and from Redis, empty for the one that cannot be reached.

    Attributes:
        database_up: whether the database can be reached.
        redis_up: whether Redis can be reached.
        jobs: number and age of unfinished jobs by state.
        outbox: number and age of messages that are not sent to the queue yet.
        queues: number of messages that wait for a worker, by queue.
        virtual_machines: number of VMs by state.
        capacity: zone, type, capacity and allocated capacity; types and units are CloudStack's (bytes, MHz, cores,
            addresses).
        hosts: name of each measured host, its used CPU in hundredths of a percent (None before the second
            measurement), and its used memory in bytes.
        power_states: number of hosts with a management controller by power state.
        ha_states: number of hosts with host HA by state of host HA.
        upstream_lag_s: seconds since the followed CloudStack was last read; None if no CloudStack is followed.
    """

    database_up: bool = False
    redis_up: bool = False
    jobs: Mapping[str, Backlog] = field(default_factory=dict)
    outbox: Backlog | None = None
    queues: Mapping[str, int] = field(default_factory=dict)
    virtual_machines: Mapping[str, int] = field(default_factory=dict)
    capacity: Sequence[tuple[str, str, int, int]] = ()
    upstream_lag_s: float | None = None
    hosts: Sequence[tuple[str, int | None, int]] = ()
    power_states: Mapping[str, int] = field(default_factory=dict)
    ha_states: Mapping[str, int] = field(default_factory=dict)


def read_state_figures(system: System) -> StateFigures:
    """Return the current figures.

    If the database or Redis cannot be reached, its figures are empty; no exception is raised.
    """
    try:
        queues = system.job_queue.waiting()
    except QueueUnavailable:
        queues = {}
    try:
        with read_only(system.engine) as connection:
            jobs, outbox = unfinished_jobs(connection), unsent_messages(connection)
            vms, capacity = vms_by_state(connection), capacity_of_zones(connection)
            lag_s, hosts = picture_age_s(connection), usage_of_hosts(connection)
            power_states, ha_states = count_power_states(connection), count_states(connection)
    except Exception as error:
        if not is_unreachable(error):
            raise
        return StateFigures(redis_up=bool(queues), queues=queues)
    return StateFigures(
        True, bool(queues), jobs, outbox, queues, vms, capacity, lag_s, hosts, power_states, ha_states
    )
