"""The sweeper's pass for host HA: activity checks, resets and fencing (one file: one pass and its actions).

A pass determines the next state transition of every host, writes all transitions, and then executes the actions
that they begin. Several sweepers may work at once: each transition is written by one sweeper, which also executes
its action. If that sweeper dies, its check or reset counts as one without a result after its timeout.

Three signals determine the health of a host. The host watch records whether the host answers its driver. Other
hosts of the cluster read whether the disks of its running VMs are written to. Its management controller reports
whether it has power.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row

from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.host_ha import (
    TRANSITIONS,
    HaEvent,
    HaRecord,
    HaSettings,
    HaSignals,
    HaState,
    check_result,
    next_event,
)
from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import address_of
from bulkdeploy.drivers.registry import FindsDrivers, NoDriverFor
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.infrastructure.evacuate_host import EVACUATE_HOST
from bulkdeploy.provisioning.power_calls import PowerCalls, action_timeout_s
from bulkdeploy.provisioning.watches.host_watch import is_cut_off, new_evacuation
from bulkdeploy.queue.job_queue import INTERACTIVE
from bulkdeploy.store.availability import host_ha as store
from bulkdeploy.store.availability.host_ha import Move
from bulkdeploy.store.availability.out_of_band_management import read_used_bmc
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.hypervisors.watching import hypervisors_in_use, lock_host_to_fence
from bulkdeploy.store.infrastructure.host_maintenance import set_resource_state
from bulkdeploy.store.infrastructure.host_migration import shared_volumes
from bulkdeploy.store.jobs.alerts import record_alerts
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_own_events
from bulkdeploy.store.jobs.jobs import insert_jobs
from bulkdeploy.telemetry import metrics

log = structlog.get_logger(__name__)

AT_ONCE = 25
"""Hosts that one sweeper checks or resets at once."""

MOST_VOLUMES, MOST_NEIGHBOURS = 200, 3
"""An activity check looks at so many volumes, through so many other hosts at most."""

SIMULATED = HaSettings(1, 5, 3, 0.0, 1, 2, 5, 1)
"""Settings of hosts whose checks are simulated, as those of CloudStack's simulator."""

ALERTING_STATES = frozenset({HaState.RECOVERING, HaState.FENCING, HaState.FENCED})
"""States that an alert tells of."""


class HostHa:
    """The sweeper's passes for host HA.

    Args:
        engine: the database.
        drivers: the hypervisors' drivers.
        power: the calls to management controllers of hosts.
        timeout_s: the timeout of a driver call in seconds.
    """

    def __init__(self, engine: Engine, drivers: FindsDrivers, power: PowerCalls, timeout_s: float) -> None:
        self._engine, self._drivers, self._power, self._timeout_s = engine, drivers, power, timeout_s

    def follow_hosts(self) -> None:
        """Write the due state transitions of all hosts with host HA, and execute the actions that they begin."""
        with read_only(self._engine) as connection:
            rows = store.followed_hosts(connection)
            if not rows:
                return
            configuration = read_configuration(connection)
            watched = [kind for kind in hypervisors_in_use(connection) if self._is_watched(kind)]
            silent = store.count_silent(connection, watched)
        withheld = _withheld(silent)
        moves: list[tuple[Row[Any], Move]] = []
        for row in rows:
            settings = settings_of(row, configuration)
            event = next_event(store.record_of(row), self._signals(row, withheld), settings)
            if event is not None and (HaState(row.ha_state), event) in TRANSITIONS:
                moves.append((row, _move(row, event)))
        if not moves:
            return
        moved = run_transaction(self._engine, partial(_make, moves=moves), Failpoint.SWEEP_HOST_HA)
        begun = [
            (row, replace(move, version=move.version + 1))
            for row, move in moves
            if row.host_id in moved and (move.check_begins or move.reset_begins)
        ]
        if begun:
            with ThreadPoolExecutor(min(AT_ONCE, len(begun)), "host-ha") as pool:
                list(pool.map(partial(self._work, configuration=configuration), begun))

    def _signals(self, row: Row[Any], withheld: frozenset[tuple[int, int]]) -> HaSignals:
        in_operation = row.resource_state == HostResourceState.ENABLED
        if row.simulated is not None:
            can_fence = bool(row.simulated["fence"])
            return HaSignals(
                is_enabled=row.is_enabled,
                is_eligible=in_operation,
                answers=bool(row.simulated["health"]),
                is_fenced=row.is_fenced and can_fence,
                is_fencing=row.is_fencing,
                is_withheld=row.ha_state == HaState.FENCING and not can_fence,
            )
        return HaSignals(
            is_enabled=row.is_enabled,
            is_eligible=in_operation and not row.is_fenced and row.has_neighbour and self._can_fence(row),
            answers=row.answers,
            is_withheld=(row.zone_id, row.cluster_id) in withheld,
            is_fenced=row.is_fenced,
            is_fencing=row.is_fencing,
        )

    def _work(self, begun: tuple[Row[Any], Move], configuration: Configuration) -> None:
        """Check the activity of a host or reset the host, as its transition requires, and write the result."""
        row, move = begun
        if move.reset_begins:
            self._reset(row, move, configuration)
            return
        settings = settings_of(row, configuration)
        is_active, mark = self._activity(row, configuration, settings.check_timeout_s)
        record = HaRecord(move.state, 0, 0, move.checks, move.failed_checks, move.recoveries)
        if is_active is not None:
            failed = move.failed_checks + (not is_active)
            record = replace(record, checks=move.checks + 1, failed_checks=failed)
        event = check_result(record, settings)
        log.info("host_activity", host=row.name, is_active=is_active, checks=record.checks)
        result = _move_of(row.host_id, move.version, move.state, event, record)
        run_transaction(
            self._engine,
            partial(_make, moves=[(row, replace(result, activity=mark))]),
            Failpoint.SWEEP_HOST_HA,
        )

    def _activity(
        self, row: Row[Any], configuration: Configuration, check_timeout_s: float
    ) -> tuple[bool | None, str | None]:
        """Return whether a host's VMs are active, and the mark of their last disk writes. None means unknown.

        A host without power is not active. Otherwise another host reads the marks of the VMs' disks: the VMs are
        active if the mark has changed since the last check. If no host could read the marks, the activity is
        unknown. Hosts of a hypervisor without such marks are not active. All questions together end in
        ``check_timeout_s``, because the pass waits for them.
        """
        if row.simulated is not None:
            return bool(row.simulated["activity"]), None
        with read_only(self._engine) as connection:
            bmc = read_used_bmc(connection, row.host_id)
            volumes = shared_volumes(connection, row.host_id, MOST_VOLUMES)
            others = store.neighbours(connection, row.host_id, MOST_NEIGHBOURS)
        share_s = check_timeout_s / (MOST_NEIGHBOURS + 1)
        timeout_s = min(action_timeout_s(configuration, row.cluster_id), share_s)
        if bmc is not None and self._power.read_state(bmc, timeout_s) is PowerState.OFF:
            return False, None
        driver = self._drivers.driver_for(row.hypervisor)
        each_s = min(self._timeout_s, share_s)
        for other in others:
            try:
                mark = driver.activity_mark(address_of(row), address_of(other), volumes, timeout_s=each_s)
            except DriverError as error:
                log.warning("activity_not_seen", host=row.name, by=other.name, why=str(error))
                continue
            if mark is None:
                return False, None
            return (None if row.activity is None else mark != row.activity), mark
        return None, None

    def _reset(self, row: Row[Any], move: Move, configuration: Configuration) -> None:
        if row.simulated is not None:
            is_reset = bool(row.simulated["recover"])
        else:
            settings = settings_of(row, configuration)
            with read_only(self._engine) as connection:
                bmc = read_used_bmc(connection, row.host_id)
            is_reset = (
                bmc is not None and self._power.act(bmc, PowerAction.RESET, settings.recover_timeout_s) is None
            )
        if not is_reset:
            end = partial(store.end_reset, host_id=row.host_id, version=move.version)
            run_transaction(self._engine, end, Failpoint.SWEEP_HOST_HA)
            return
        record = HaRecord(move.state, 0, recoveries=move.recoveries)
        result = _move_of(row.host_id, move.version, move.state, HaEvent.RECOVERED, record)
        run_transaction(self._engine, partial(_make, moves=[(row, result)]), Failpoint.SWEEP_HOST_HA)

    def _can_fence(self, row: Row[Any]) -> bool:
        if row.has_bmc:
            return True
        try:
            return HostFencing in self._drivers.driver_for(row.hypervisor).abilities
        except NoDriverFor:
            return False

    def _is_watched(self, hypervisor: str) -> bool:
        try:
            return self._drivers.driver_for(hypervisor).is_watched
        except NoDriverFor:
            return False


def settings_of(row: Row[Any], configuration: Configuration) -> HaSettings:
    """Return the host HA settings of a host's cluster, or fixed settings if the host's checks are simulated."""
    if row.simulated is not None:
        return replace(SIMULATED, failure_ratio=1.0 if row.simulated["activity"] else 0.0)

    def number(name: str) -> int:
        return configuration.number(f"kvm.ha.{name}", Scope.CLUSTER, row.cluster_id)

    return HaSettings(
        check_interval_s=number("activity.check.interval"),
        check_timeout_s=number("activity.check.timeout"),
        checks=number("activity.check.max.attempts"),
        failure_ratio=configuration.decimal("kvm.ha.activity.check.failure.ratio", Scope.CLUSTER, row.cluster_id),
        degraded_s=number("degraded.max.period"),
        recoveries=number("recover.failure.threshold"),
        recover_timeout_s=number("recover.timeout"),
        recover_wait_s=number("recover.wait.period"),
    )


def _withheld(silent: Sequence[Row[Any]]) -> frozenset[tuple[int, int]]:
    """Return the zones and clusters in which so many hosts are silent that no host is reset or fenced."""
    zones: dict[int, tuple[int, int]] = {}
    for row in silent:
        hosts, quiet = zones.get(row.zone_id, (0, 0))
        zones[row.zone_id] = (hosts + row.hosts, quiet + row.silent)
    return frozenset(
        (row.zone_id, row.cluster_id)
        for row in silent
        if is_cut_off(*zones[row.zone_id]) or is_cut_off(row.hosts, row.silent)
    )


def _move(row: Row[Any], event: HaEvent) -> Move:
    return _move_of(row.host_id, row.version, HaState(row.ha_state), event, store.record_of(row))


def _move_of(host_id: int, version: int, previous: HaState, event: HaEvent, record: HaRecord) -> Move:
    """Return the state transition of a host for this event, with the counters that it has afterwards.

    If the host answers or is fenced, all counters restart at zero. If activity checks decided the event, their
    counters restart.
    """
    state = TRANSITIONS[previous, event]
    move = Move(host_id, version, event, previous, state, record.checks, record.failed_checks, record.recoveries)
    match event:
        case HaEvent.HEALTH_CHECK_PASSED | HaEvent.DISABLED | HaEvent.ENABLED | HaEvent.ELIGIBLE | HaEvent.FENCED:
            return replace(move, checks=0, failed_checks=0, recoveries=0, forgets_checks=True, reset_is_over=True)
        case HaEvent.PERFORM_ACTIVITY_CHECK:
            return replace(move, check_begins=True)
        case HaEvent.RETRY_RECOVERY:
            return replace(move, checks=0, failed_checks=0, recoveries=record.recoveries + 1, reset_begins=True)
        case HaEvent.RECOVERED | HaEvent.RECOVERY_ATTEMPTS_EXCEEDED | HaEvent.HEALTH_CHECK_FAILED:
            return replace(move, checks=0, failed_checks=0, forgets_checks=True, reset_is_over=True)
        case HaEvent.RECHECK_ACTIVITY:
            return replace(move, checks=0, failed_checks=0, forgets_checks=True)
        case _:
            return move


def _make(connection: Connection, *, moves: Sequence[tuple[Row[Any], Move]]) -> set[int]:
    """Write state transitions together with their fencing jobs and alerts.

    Returns the ids of the changed hosts.
    """
    moved = store.write_moves(connection, [move for _, move in moves])
    for row, move in moves:
        if move.host_id not in moved:
            continue
        log.info("host_ha", host=row.name, cause=move.event.value, state=move.state.value)
        if move.state is HaState.FENCING:
            _fence(connection, row)
        if move.state is HaState.FENCED:
            set_resource_state(
                connection,
                [row.host_id],
                HostResourceState.MAINTENANCE,
                sources=(HostResourceState.ENABLED, HostResourceState.DISABLED),
            )
        if move.state in ALERTING_STATES and move.state is not move.previous:
            what = _alert_text(row.name, move.state)
            record_alerts(connection, [Alert(AlertType.HA_ACTION, what)])
            about = Instance(EVACUATE_HOST.instance_type, row.host_id, row.uuid)
            record_own_events(connection, [Happened(EventType.HOST_HA_TRANSITION, what, about)])
    return moved


def _fence(connection: Connection, row: Row[Any]) -> None:
    """Mark a host as Down and create the job that fences it and restarts its VMs, unless such a job exists."""
    if row.simulated is not None and not row.simulated["fence"]:
        return
    host = lock_host_to_fence(connection, row.host_id)
    if host is not None:
        insert_jobs(connection, [new_evacuation(host, "which host HA fences")], INTERACTIVE)
        metrics.SWEPT.labels("evacuations").inc()


def _alert_text(host: str, state: HaState) -> str:
    texts = {
        HaState.RECOVERING: "does not answer and its virtual machines are not active: it is reset",
        HaState.FENCING: "could not be recovered: it is switched off",
        HaState.FENCED: (
            "is off and in maintenance, and its highly available virtual machines are started elsewhere: when it"
            " works again, reconnectHost and cancelHostMaintenance take it back"
        ),
    }
    return f"Host {host} {texts[state]}"
