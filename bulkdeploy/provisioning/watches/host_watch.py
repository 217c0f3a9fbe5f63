"""The sweeper's checks of hosts that may fail and guests that may end (one file: one pass and its results).

A host that does not answer is Disconnected, and after ``host.down.wait`` Down; in both states it gets no new VMs. A
host that its hypervisor drains is Disconnected while it is drained. A host is Up again once it has answered for
``host.up.wait`` without interruption: a host that repeatedly fails and recovers stays Disconnected and causes one
alert. The results are stored in rows, so that a host is Down only if no sweeper can reach it. If a host that was
declared off answers again, its guests are stopped, except guests whose rows are on this host: the others may run
elsewhere now.

If a host is Down and its driver can fence it, an evacuation job fences the host and then starts its highly
available VMs elsewhere. No other VM is started, because a silent host may still run its guests.

A VM whose guest was missing in two checks, a second or more apart, gets a job that stops the VM. The job checks
again with its fence, removes remains of the guest, and releases claims. A guest that is missing once may be
migrating. A highly available VM whose guest crashed gets a job that restarts it instead (``ended_guests``). If a
hypervisor reports that a guest ended, its host is checked in that round and the next. All hosts are checked less
often, which finds ends that were not reported.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, Engine, Row

from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError, HostDrained
from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.drivers.hosts import HostAddress, address_of
from bulkdeploy.drivers.registry import FindsDrivers, NoDriverFor
from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.driver_calls import PATIENCE_S
from bulkdeploy.provisioning.kinds.infrastructure.evacuate_host import BY_DRIVER, EVACUATE_HOST, ONLY_HA
from bulkdeploy.provisioning.watches.ended_guests import stop_or_restart
from bulkdeploy.queue.job_queue import INTERACTIVE
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.default_rows import ADMIN_ACCOUNT_ID, ADMIN_USER_ID
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.hypervisors import watching as store
from bulkdeploy.store.infrastructure.host_migration import guests_kept_on
from bulkdeploy.store.infrastructure.host_rows import set_memory
from bulkdeploy.store.jobs.alerts import record_alerts
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import NewJob, insert_jobs
from bulkdeploy.telemetry import metrics

log = structlog.get_logger(__name__)

MEMORY_EVERY_S = 30.0
"""How often drivers are asked how much memory is left for guests of ours."""

APART_S = 1.0
"""A guest that is missing in two looks so far apart has ended."""

MOST_SILENT = 0.5
"""Where a larger share of the hosts of a zone or a cluster is silent, it is this process that is cut off: nothing
is fenced."""


def is_cut_off(hosts: int, silent: int) -> bool:
    """Return whether the share of silent hosts suggests that the sweeper itself is disconnected from them."""
    return silent > MOST_SILENT * hosts


@dataclass(frozen=True, slots=True)
class Waits:
    """The seconds of silence after which a host is Down, and the seconds of answers after which it is Up again."""

    down_s: float
    up_s: float


def state_after(state: str, *, answers: bool, lasted_s: float, waits: Waits, is_drained: bool = False) -> HostState:
    """Return the new state of a host that has answered, or has not answered, for ``lasted_s`` seconds.

    A drained host is Disconnected, so that it gets no new VMs, but it never becomes Down because its guests still
    run.
    """
    if is_drained:
        return HostState.DISCONNECTED
    if answers:
        return HostState.UP if state == HostState.UP or lasted_s >= waits.up_s else HostState(state)
    is_down = state == HostState.DOWN or lasted_s >= waits.down_s
    return HostState.DOWN if is_down else HostState.DISCONNECTED


@dataclass(frozen=True, slots=True)
class CheckedHost:
    """The result of one check of a host: its row, the reason for its silence, and its running or crashed guests.

    ``silence`` is None if the host answered. ``is_drained`` means that the host accepts no new guests; the reason
    for that is then in ``silence``.
    """

    host: Row[Any]
    silence: str | None
    running: frozenset[UUID] = frozenset()
    crashed: frozenset[UUID] = frozenset()
    is_drained: bool = False

    @property
    def answers(self) -> bool:
        """True if the host answered the check."""
        return self.silence is None


class HostWatch:
    """The sweeper's passes that check hosts and guests.

    Args:
        engine: the database.
        drivers: the drivers of hypervisors.
        timeout_s: the timeout of a driver call in seconds, at most PATIENCE_S.
        clock: returns seconds that never decrease.
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
        self._silent_since: dict[int, float] = {}
        self._memory_next = clock()
        self._missing_since: dict[tuple[UUID, UUID], float] = {}
        """Of VMs that had no running guest in the last look at their host, by both uuids: the first such look."""
        self._withheld: frozenset[tuple[str, int]] = frozenset()

    def watch_hosts(self) -> None:
        """Check every watched host once, and write the new states of hosts and VMs."""
        with read_only(self._engine) as connection:
            drivers = self._watched(store.hypervisors_in_use(connection))
            hosts = store.watched_hosts(connection, list(drivers)) if drivers else []
            telling = [host.uuid for host in hosts if drivers[host.hypervisor].guests_may_end]
            before = {vm.uuid: vm for vm in store.settled_vms(connection, telling)} if telling else {}
            configuration = read_configuration(connection)
        if not hosts:
            return
        seen = [one for kind, driver in drivers.items() for one in self._look(driver, kind, hosts)]
        waits = Waits(configuration.number("host.down.wait"), configuration.number("host.up.wait"))
        down = self._set_states(seen, waits)
        if configuration.flag("vm.ha.enabled"):
            self._evacuate(
                seen,
                [
                    one
                    for one in down
                    if not one.host.has_ha and HostFencing in drivers[one.host.hypervisor].abilities
                ],
            )
        for one in seen:
            if one.answers and one.host.fenced:
                self._end_leftovers(drivers[one.host.hypervisor], one.host)
        self._stop_ended([one for one in seen if one.answers and one.host.uuid in set(telling)], before, telling)
        if self._clock() >= self._memory_next:
            self._memory_next = self._clock() + MEMORY_EVERY_S
            for kind, driver in drivers.items():
                self._follow_memory(driver, kind, hosts)

    def look_after_ends(self) -> None:
        """Check the hosts for which drivers reported ended guests, and check missing guests a second time."""
        with read_only(self._engine) as connection:
            watched = self._watched(store.hypervisors_in_use(connection))
            drivers = {kind: driver for kind, driver in watched.items() if driver.guests_may_end}
            hosts = store.watched_hosts(connection, list(drivers)) if drivers else []
        reported = frozenset(vm for vm, _ in self._missing_since).union(
            *(driver.ended_guests(_addresses(kind, hosts)) for kind, driver in drivers.items())
        )
        if not reported:
            return
        answering = [host for host in hosts if host.state == HostState.UP]
        with read_only(self._engine) as connection:
            every = store.settled_vms(connection, [host.uuid for host in answering])
        in_question = {vm.host_uuid for vm in every if vm.uuid in reported}
        looked_at = [host for host in answering if host.uuid in in_question]
        before = {vm.uuid: vm for vm in every if vm.host_uuid in in_question}
        seen = [one for kind, driver in drivers.items() for one in self._look(driver, kind, looked_at)]
        self._stop_ended([one for one in seen if one.answers], before, [host.uuid for host in hosts])

    def _watched(self, hypervisors: Sequence[str]) -> dict[str, HypervisorDriver]:
        found: dict[str, HypervisorDriver] = {}
        for kind in hypervisors:
            with suppress(NoDriverFor):
                driver = self._drivers.driver_for(kind)
                if driver.is_watched:
                    found[kind] = driver
        return found

    def _look(self, driver: HypervisorDriver, kind: str, hosts: Sequence[Row[Any]]) -> list[CheckedHost]:
        """Query all hosts of a hypervisor type, and return the results.

        The list is empty if the driver cannot query any host; then no host counts as silent.
        """
        of_kind = [host for host in hosts if host.hypervisor == kind]
        if not of_kind:
            return []
        try:
            answers = driver.look_at_hosts(_addresses(kind, hosts), timeout_s=self._timeout_s)
        except DriverError as error:
            log.warning("hosts_not_seen", hypervisor=kind, why=str(error))
            return []
        return [_checked_host(host, answer) for host, answer in zip(of_kind, answers, strict=True)]

    def _follow_memory(self, driver: HypervisorDriver, kind: str, hosts: Sequence[Row[Any]]) -> None:
        """Write the memory of hosts for our guests, for drivers of hosts whose memory changes by itself."""
        try:
            memory = driver.memory_of_hosts(_addresses(kind, hosts), timeout_s=self._timeout_s)
        except DriverError as error:
            log.warning("memory_not_seen", hypervisor=kind, why=str(error))
            return
        changed = {
            host.id: memory[host.uuid]
            for host in hosts
            if memory.get(host.uuid, host.memory_mib) != host.memory_mib
        }
        if changed:
            run_transaction(self._engine, partial(set_memory, memory_mib=changed), Failpoint.SWEEP_GUESTS)
            log.info("host_memory", hosts=len(changed))

    def _set_states(self, seen: Sequence[CheckedHost], waits: Waits) -> list[CheckedHost]:
        """Write changed states of hosts with alerts, and return the silent hosts that are Down now."""
        now = self._clock()
        self._silent_since = {
            one.host.id: self._silent_since.get(one.host.id, now) for one in seen if not one.answers
        }
        noted = [one for one in seen if one.answers != one.host.answers and not _is_well(one)]
        states = {
            one.host.id: state_after(
                one.host.state,
                answers=one.answers,
                lasted_s=self._lasted(one, now),
                waits=waits,
                is_drained=one.is_drained,
            )
            for one in seen
        }
        changed = [one for one in seen if states[one.host.id] != one.host.state]
        if noted or changed:
            write = partial(_write, noted=noted, changed=changed, states=states)
            for host, state in run_transaction(self._engine, write, Failpoint.SWEEP_GUESTS):
                log.info("host_state", host=host, state=state.value)
        return [one for one in seen if not one.answers and states[one.host.id] == HostState.DOWN]

    def _end_leftovers(self, driver: HypervisorDriver, host: Row[Any]) -> None:
        """Stop the old guests on a host that was declared off and now answers: their VMs may run on other hosts."""
        with read_only(self._engine) as connection:
            kept = guests_kept_on(connection, host.id)
        failpoints.before(Failpoint.DRIVER_LEFTOVERS)
        try:
            driver.end_leftovers(address_of(host), kept, timeout_s=self._timeout_s)
        except DriverError as error:
            log.warning("leftovers_not_ended", host=host.name, why=str(error))
        failpoints.after(Failpoint.DRIVER_LEFTOVERS)

    def _lasted(self, one: CheckedHost, now: float) -> float:
        """Return the seconds for which a host has answered or been silent.

        Silence counts only as far as this process saw it.
        """
        if one.answers != one.host.answers:
            return 0.0
        lasted_s = float(one.host.lasted_s)
        return lasted_s if one.answers else min(lasted_s, now - self._silent_since[one.host.id])

    def _evacuate(self, seen: Sequence[CheckedHost], down: Sequence[CheckedHost]) -> None:
        """Create evacuation jobs for the hosts in ``down``.

        In zones and clusters where too many hosts are silent, no job is created, because the sweeper itself may be
        disconnected. An alert is written instead.
        """
        counted = [one for one in seen if not one.host.fenced]
        hosts_of = Counter(place for one in counted for place in _places(one))
        silent = Counter(place for one in counted if not one.answers for place in _places(one))
        cut_off = frozenset(place for place, number in silent.items() if is_cut_off(hosts_of[place], number))
        waiting = [one for one in down if not one.host.fenced]
        withheld = cut_off & {
            next((place for place in _places(one) if place in cut_off), _places(one)[0]) for one in waiting
        }
        for place in withheld - self._withheld:
            what = f"{silent[place]} of {hosts_of[place]} hosts of a {place[0]} are silent"
            alert = Alert(
                AlertType.MANAGEMENT_NODE,
                f"{what}: the sweeper may be cut off from them, so no host is fenced"
                " and no virtual machine is started elsewhere"
                " automatically. If these hosts are dead, call evacuateHost for each of them",
            )
            log.warning("fencing_withheld", why=what)
            run_transaction(self._engine, partial(record_alerts, noticed=[alert]), Failpoint.SWEEP_GUESTS)
        self._withheld = withheld
        for one in waiting:
            if cut_off.isdisjoint(_places(one)):
                made = run_transaction(
                    self._engine, partial(_evacuate, host_id=one.host.id), Failpoint.SWEEP_EVACUATIONS
                )
                if made:
                    metrics.SWEPT.labels("evacuations").inc()
                    log.warning("host_evacuated", host=one.host.name)

    def _stop_ended(
        self, seen: Sequence[CheckedHost], before: Mapping[UUID, Row[Any]], watched: Collection[UUID]
    ) -> None:
        """Create jobs for VMs whose guests have been missing for long enough.

        A missing guest on a host that was not queried in this pass stays recorded as missing.
        """
        answering = [one.host.uuid for one in seen]
        after: Sequence[Row[Any]] = ()
        if answering:
            with read_only(self._engine) as connection:
                after = store.settled_vms(connection, answering)
        running = frozenset[UUID]().union(*(one.running for one in seen))
        crashed = frozenset[UUID]().union(*(one.crashed for one in seen))
        now = self._clock()
        missing = {
            (vm.uuid, vm.host_uuid): self._missing_since.get((vm.uuid, vm.host_uuid), now)
            for vm in after
            if before.get(vm.uuid) == vm and vm.uuid not in running
        }
        ended = frozenset(vm for (vm, _), since in missing.items() if now - since >= APART_S)
        unseen, moved = set(watched) - set(answering), {vm.uuid for vm in after}
        self._missing_since = missing | {
            (vm, host): since
            for (vm, host), since in self._missing_since.items()
            if host in unseen and vm not in moved
        }
        if ended:
            handle = partial(stop_or_restart, host_uuids=answering, vm_uuids=ended, crashed=crashed)
            jobs = run_transaction(self._engine, handle, Failpoint.SWEEP_GUESTS)
            metrics.SWEPT.labels("ended_guests").inc(jobs)
            log.info("ended_guests", jobs=jobs)


def _places(one: CheckedHost) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return the zone and the cluster of a host."""
    return ("zone", one.host.zone_id), ("cluster", one.host.cluster_id)


def _addresses(kind: str, hosts: Sequence[Row[Any]]) -> list[HostAddress]:
    """Return the addresses of the hosts of a hypervisor type."""
    return [address_of(host) for host in hosts if host.hypervisor == kind]


def _checked_host(host: Row[Any], answer: Sequence[Guest] | DriverError) -> CheckedHost:
    if isinstance(answer, DriverError):
        if host.answers is not False:
            log.warning("host_silent", host=host.name, why=str(answer))
        return CheckedHost(host, str(answer), is_drained=isinstance(answer, HostDrained))
    running = frozenset(guest.uuid for guest in answer if guest.power is PowerState.RUNNING)
    return CheckedHost(host, None, running, frozenset(guest.uuid for guest in answer if guest.has_crashed))


def _is_well(one: CheckedHost) -> bool:
    """Return whether a host is Up, answers, and has not been silent recently."""
    return one.answers and one.host.answers is None and one.host.state == HostState.UP


def _write(
    connection: Connection,
    *,
    noted: Sequence[CheckedHost],
    changed: Sequence[CheckedHost],
    states: Mapping[int, HostState],
) -> list[tuple[str, HostState]]:
    """Write answers and states of hosts, and return the new state of each host that changed."""
    alerts: list[Alert] = []
    for answers in (False, True):
        alike = {one.host.id: one.host for one in noted if one.answers is answers}
        new = store.note_answers(connection, alike, answers=answers) if alike else set()
        alerts += [_back(host) for number, host in alike.items() if answers and number in new and host.fenced]
    written: list[tuple[str, HostState]] = []
    for state in sorted({states[one.host.id] for one in changed}):
        of_state = {one.host.id: one for one in changed if states[one.host.id] == state}
        for number in sorted(store.set_states(connection, of_state, state.value)):
            one = of_state[number]
            written.append((one.host.name, state))
            alerts += _silent(one, state)
    record_alerts(connection, alerts)
    return written


def _silent(one: CheckedHost, state: HostState) -> list[Alert]:
    if one.silence is None:
        return []
    what = f"Host {one.host.name} is {state.value} and takes no new virtual machines: {one.silence}."
    if state is HostState.DOWN:
        what += " Its virtual machines may run on; evacuateHost starts them elsewhere"
    return [Alert(AlertType.HOST, what)]


def _back(host: Row[Any]) -> Alert:
    return Alert(
        AlertType.HOST,
        f"Host {host.name} answers although its virtual machines were started elsewhere: those that still run on it"
        " are ended. Call reconnectHost to use the host again",
    )


def _evacuate(connection: Connection, *, host_id: int) -> bool:
    """Create a job that evacuates the host.

    Returns False if there is such a job already, or if the host must not be evacuated any more.
    """
    host = store.lock_host_to_evacuate(connection, host_id)
    if host is None:
        return False
    job = new_evacuation(host, "which is Down and has highly available VMs")
    insert_jobs(connection, [job], INTERACTIVE)
    return True


def new_evacuation(host: Row[Any], why: str) -> NewJob:
    """Return the job that fences a locked host and starts its highly available VMs elsewhere."""
    return EVACUATE_HOST.new_job(
        Instance(EVACUATE_HOST.instance_type, host.id, host.uuid),
        f"evacuating host {host.name}, {why}",
        account_id=ADMIN_ACCOUNT_ID,
        user_id=ADMIN_USER_ID,
        params={BY_DRIVER: True, ONLY_HA: True},
    )
