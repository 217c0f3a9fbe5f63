"""The state of the whole service in numbers, read from the database on request."""

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
    """Figures from the database and the message broker. A service that does not answer has no figures.

    Attributes:
        jobs: unfinished jobs by state.
        outbox: messages not sent yet.
        queues: messages by queue that wait for a worker.
        virtual_machines: VMs by state.
        capacity: per zone and type of capacity (in CloudStack's words: bytes, MHz, cores, addresses) how much there
            is, and how much of it is taken.
        hosts: name of each measured host, with hundredths of a percent of its cores that are in use, or None before
            the second measurement, and bytes of memory in use.
        power_states: how many hosts with a management controller are in each power state.
        ha_states: how many hosts with host HA are in each of its states.
        upstream_lag_s: age of what was read from the followed CloudStack; None: none is followed.
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
    """Return the figures now; never raises because a service is away."""
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
