"""High availability of hosts: states and transitions with CloudStack's names, and the conditions for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

HA_PRIORITY = "ha.priority"
"""The detail of a VM or of its service offering with the priority by which it is started on another host."""
HIGHEST_PRIORITY = 1000


class HaState(StrEnum):
    """The states of host HA (response field ``hastate``)."""

    DISABLED = "Disabled"
    AVAILABLE = "Available"
    INELIGIBLE = "Ineligible"
    """The host is in no state for high availability, such as in maintenance or without a way to fence it."""
    SUSPECTED = "Suspect"
    """The host did not answer its driver."""
    CHECKING = "Checking"
    """The activity of the host's virtual machines is being checked."""
    DEGRADED = "Degraded"
    """The host does not answer, but its virtual machines are active."""
    RECOVERING = "Recovering"
    """The host is being reset."""
    RECOVERED = "Recovered"
    """The host was reset and is given time to answer again."""
    FENCING = "Fencing"
    """The host is being switched off."""
    FENCED = "Fenced"
    """The host is verified to be off."""


class HaEvent(StrEnum):
    """The events that change the HA state of a host."""

    ELIGIBLE = "Eligible"
    INELIGIBLE = "Ineligible"
    DISABLED = "Disabled"
    ENABLED = "Enabled"
    HEALTH_CHECK_PASSED = "HealthCheckPassed"
    HEALTH_CHECK_FAILED = "HealthCheckFailed"
    PERFORM_ACTIVITY_CHECK = "PerformActivityCheck"
    TOO_FEW_SAMPLES = "TooFewActivityCheckSamples"
    RECHECK_ACTIVITY = "PeriodicRecheckResourceActivity"
    INACTIVE = "ActivityCheckFailureOverThresholdRatio"
    ACTIVE = "ActivityCheckFailureUnderThresholdRatio"
    RECOVERED = "Recovered"
    RETRY_RECOVERY = "RetryRecovery"
    RECOVERY_WAIT_OVER = "RecoveryWaitPeriodTimeout"
    RECOVERY_ATTEMPTS_EXCEEDED = "RecoveryOperationThresholdExceeded"
    RETRY_FENCING = "RetryFencing"
    FENCED = "Fenced"


S, E = HaState, HaEvent

TRANSITIONS: Mapping[tuple[HaState, HaEvent], HaState] = {
    (S.DISABLED, E.ENABLED): S.AVAILABLE,
    (S.INELIGIBLE, E.ELIGIBLE): S.AVAILABLE,
    (S.AVAILABLE, E.HEALTH_CHECK_FAILED): S.SUSPECTED,
    (S.SUSPECTED, E.HEALTH_CHECK_PASSED): S.AVAILABLE,
    (S.SUSPECTED, E.PERFORM_ACTIVITY_CHECK): S.CHECKING,
    (S.CHECKING, E.TOO_FEW_SAMPLES): S.SUSPECTED,
    (S.CHECKING, E.ACTIVE): S.DEGRADED,
    (S.CHECKING, E.INACTIVE): S.RECOVERING,
    (S.DEGRADED, E.HEALTH_CHECK_PASSED): S.AVAILABLE,
    (S.DEGRADED, E.RECHECK_ACTIVITY): S.SUSPECTED,
    (S.RECOVERING, E.RETRY_RECOVERY): S.RECOVERING,
    (S.RECOVERING, E.RECOVERED): S.RECOVERED,
    (S.RECOVERING, E.RECOVERY_ATTEMPTS_EXCEEDED): S.FENCING,
    (S.RECOVERED, E.RECOVERY_WAIT_OVER): S.AVAILABLE,
    (S.FENCING, E.RETRY_FENCING): S.FENCING,
    (S.FENCING, E.FENCED): S.FENCED,
    (S.FENCED, E.HEALTH_CHECK_PASSED): S.INELIGIBLE,
    **{(state, E.DISABLED): S.DISABLED for state in HaState if state is not S.DISABLED},
    **{
        (state, E.INELIGIBLE): S.INELIGIBLE
        for state in HaState
        if state not in (S.DISABLED, S.INELIGIBLE, S.FENCED)
    },
}
"""The state after an event. Events that are not listed for a state change nothing."""


@dataclass(frozen=True, slots=True)
class HaSettings:
    """The settings of host HA: when a host is checked, recovered and fenced (``kvm.ha.*`` of its cluster).

    Attributes:
        check_interval_s: the seconds from the end of an activity check to the beginning of the next. Guests can
            show activity only between two checks.
        check_timeout_s: the seconds after which an activity check without a result is ignored.
        checks: the number of activity checks before it is decided whether the host is active.
        failure_ratio: the host is inactive if a larger share of its checks failed.
        degraded_s: the seconds after which a Degraded host is checked again.
        recoveries: the number of resets before the host is fenced.
        recover_timeout_s: the maximum duration of a reset in seconds.
        recover_wait_s: the seconds within which a host must answer after a reset.
    """

    check_interval_s: float
    check_timeout_s: float
    checks: int
    failure_ratio: float
    degraded_s: float
    recoveries: int
    recover_timeout_s: float
    recover_wait_s: float


@dataclass(frozen=True, slots=True)
class HaSignals:
    """The facts about a host that determine its next event.

    Attributes:
        is_enabled: whether host HA is enabled for the host, its cluster and its zone.
        is_eligible: whether the host is in operation, can be fenced, and another host can take over its virtual
            machines.
        answers: whether the host answers its driver.
        is_withheld: whether so many hosts are silent that the sweeper may be disconnected, so that no host is reset
            or fenced.
        is_fenced: whether the host was verified to be off.
        is_fencing: whether an unfinished job fences the host.
    """

    is_enabled: bool
    is_eligible: bool
    answers: bool
    is_withheld: bool = False
    is_fenced: bool = False
    is_fencing: bool = False


@dataclass(frozen=True, slots=True)
class HaRecord:
    """The progress of high availability for a host.

    Attributes:
        state: the HA state.
        in_state_s: the seconds since the host entered the state.
        since_check_s: the seconds since its last activity check began, or None if there was none since it answered.
        checks: the number of activity checks with a result since it answered, or since the last decision.
        failed_checks: the number of these checks that found no activity.
        recoveries: the number of resets since it answered.
        since_reset_s: the seconds since the beginning of a reset that has no result yet, or None.
    """

    state: HaState
    in_state_s: float
    since_check_s: float | None = None
    checks: int = 0
    failed_checks: int = 0
    recoveries: int = 0
    since_reset_s: float | None = None


def next_event(record: HaRecord, signals: HaSignals, settings: HaSettings) -> HaEvent | None:
    """Return the next event that changes the HA state of a host, or None if there is none now.

    RETRY_RECOVERY begins a reset, and PERFORM_ACTIVITY_CHECK a check. Their results are events of their own.
    """
    state = record.state
    if not signals.is_enabled:
        return None if state is S.DISABLED else E.DISABLED
    if state is S.DISABLED:
        return E.ENABLED
    if state is S.FENCED:
        return E.HEALTH_CHECK_PASSED if signals.answers else None
    if not signals.is_eligible and not (state is S.FENCING and (signals.is_fencing or signals.is_fenced)):
        return None if state is S.INELIGIBLE else E.INELIGIBLE
    if state is S.INELIGIBLE:
        return E.ELIGIBLE
    return _event_of_eligible(record, signals, settings)


def _event_of_eligible(record: HaRecord, signals: HaSignals, settings: HaSettings) -> HaEvent | None:
    match record.state:
        case S.AVAILABLE:
            return None if signals.answers else E.HEALTH_CHECK_FAILED
        case S.SUSPECTED:
            if signals.answers:
                return E.HEALTH_CHECK_PASSED
            is_due = record.since_check_s is None or record.in_state_s >= settings.check_interval_s
            return E.PERFORM_ACTIVITY_CHECK if is_due else None
        case S.CHECKING:
            return E.TOO_FEW_SAMPLES if record.in_state_s >= settings.check_timeout_s else None
        case S.DEGRADED:
            if signals.answers:
                return E.HEALTH_CHECK_PASSED
            return E.RECHECK_ACTIVITY if record.in_state_s >= settings.degraded_s else None
        case S.RECOVERED:
            return E.RECOVERY_WAIT_OVER if record.in_state_s >= settings.recover_wait_s else None
        case S.RECOVERING:
            return _event_of_recovering(record, signals, settings)
        case _:
            return _event_of_fencing(signals)


def _event_of_recovering(record: HaRecord, signals: HaSignals, settings: HaSettings) -> HaEvent | None:
    if signals.is_withheld:
        return None
    if record.since_reset_s is not None and record.since_reset_s < settings.recover_timeout_s:
        return None
    return E.RECOVERY_ATTEMPTS_EXCEEDED if record.recoveries >= settings.recoveries else E.RETRY_RECOVERY


def _event_of_fencing(signals: HaSignals) -> HaEvent | None:
    if signals.is_fenced:
        return E.FENCED
    return None if signals.is_fencing or signals.is_withheld else E.RETRY_FENCING


def check_result(record: HaRecord, settings: HaSettings) -> HaEvent:
    """Return the event that follows from the checks of a host. ``record`` includes the last check."""
    if record.checks < settings.checks:
        return E.TOO_FEW_SAMPLES
    return E.INACTIVE if record.failed_checks > record.checks * settings.failure_ratio else E.ACTIVE
