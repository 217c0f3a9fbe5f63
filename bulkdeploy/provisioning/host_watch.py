"""The sweeper's look at hosts that may fail and at guests that may end by themselves.

A host that does not answer is Disconnected, and Down after DOWN_S; both take no new VMs. One that answers again is
Up. Nothing is started elsewhere: a host that is silent may run its guests on.

A VM whose guest was not running, in two looks in a row, gets a job that stops it: the job looks again, with its
fence, takes away what is left of the guest, and gives claims back. What is missing in one look may be on its way.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, Engine, Row

from bulkdeploy import metrics
from bulkdeploy.domain.topology import HostState
from bulkdeploy.drivers.driver import DriverError, PowerState
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.registry import FindsDrivers, NoDriverFor
from bulkdeploy.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.stop_virtual_machine import STOP
from bulkdeploy.queue.job_queue import INTERACTIVE
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.hypervisors import watching as store
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import insert_jobs

log = structlog.get_logger(__name__)

AT_ONCE = 16
"""Hosts that one process looks at at the same time."""

PATIENCE_S = 10.0
"""How long one host may take to answer."""

DOWN_S = 60.0
"""A host that is silent for so long is Down."""


class HostWatch:
    """The pass.

    Args:
        engine: the database.
        drivers: where drivers are found.
        timeout_s: how long a driver call may take, in seconds; no longer than PATIENCE_S.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        engine: Engine,
        drivers: FindsDrivers,
        timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._drivers, self._clock = engine, drivers, clock
        self._timeout_s = min(timeout_s, PATIENCE_S)
        self._silent_since: dict[UUID, float] = {}
        self._missing: frozenset[UUID] = frozenset()

    def watch_hosts(self) -> None:
        """Look at every watched host once."""
        with read_only(self._engine) as connection:
            hypervisors = [kind for kind in store.hypervisors_with_urls(connection) if self._is_watched(kind)]
            hosts = store.watched_hosts(connection, hypervisors) if hypervisors else []
            before = {vm.uuid: vm for vm in store.settled_vms(connection, [host.uuid for host in hosts])}
        if not hosts:
            return
        with ThreadPoolExecutor(AT_ONCE) as threads:
            seen = dict(zip((host.uuid for host in hosts), threads.map(self._look, hosts), strict=True))
        self._set_states(hosts, seen)
        answering = [uuid for uuid, running in seen.items() if running is not None]
        with read_only(self._engine) as connection:
            after = store.settled_vms(connection, answering)
        running = frozenset[UUID]().union(*filter(None, seen.values()))
        missing = frozenset(vm.uuid for vm in after if before.get(vm.uuid) == vm and vm.uuid not in running)
        ended, self._missing = missing & self._missing, missing
        if ended:
            stop = partial(_stop, host_uuids=answering, vm_uuids=ended)
            stopped = run_transaction(self._engine, stop, Failpoint.SWEEP_GUESTS)
            metrics.SWEPT.labels("ended_guests").inc(stopped)
            log.info("ended_guests", jobs=stopped)

    def _is_watched(self, hypervisor: str) -> bool:
        try:
            return self._drivers.driver_for(hypervisor).is_watched
        except NoDriverFor:
            return False

    def _look(self, host: Row[Any]) -> frozenset[UUID] | None:
        """The guests that run on a host; None: it does not answer."""
        address = HostAddress(host.uuid, host.name, host.ip_address, host.hypervisor, host.url)
        try:
            guests = self._drivers.driver_for(host.hypervisor).guests_of_host(address, timeout_s=self._timeout_s)
        except DriverError as error:
            if host.uuid not in self._silent_since:
                log.warning("host_silent", host=host.name, why=str(error))
            return None
        return frozenset(guest.uuid for guest in guests if guest.power is PowerState.RUNNING)

    def _set_states(self, hosts: Sequence[Row[Any]], seen: dict[UUID, frozenset[UUID] | None]) -> None:
        now = self._clock()
        self._silent_since = {
            uuid: self._silent_since.get(uuid, now) for uuid, running in seen.items() if running is None
        }
        changes: dict[HostState, list[UUID]] = {}
        for host in hosts:
            state = HostState.UP
            if host.uuid in self._silent_since:
                is_down = host.state == HostState.DOWN or now - self._silent_since[host.uuid] >= DOWN_S
                state = HostState.DOWN if is_down else HostState.DISCONNECTED
            if host.state != state:
                changes.setdefault(state, []).append(host.uuid)
                log.info("host_state", host=host.name, state=state.value)
        for state, uuids in changes.items():
            change = partial(store.set_states, host_uuids=uuids, state=state.value)
            run_transaction(self._engine, change, Failpoint.SWEEP_GUESTS)


def _stop(connection: Connection, *, host_uuids: Sequence[UUID], vm_uuids: frozenset[UUID]) -> int:
    """Jobs in the name of each VM's owner; how many."""
    vms = store.lock_settled_vms(connection, host_uuids, vm_uuids)
    if vms:
        jobs = [
            STOP.new_job(
                Instance(STOP.instance_type, vm.id, vm.uuid),
                f"stopping Vm {vm.name}, whose guest has ended",
                account_id=vm.account_id,
                user_id=vm.user_id,
                params={"forced": True},
            )
            for vm in vms
        ]
        insert_jobs(connection, jobs, INTERACTIVE)
    return len(vms)
