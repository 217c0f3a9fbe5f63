"""The states of host HA: every decision is a transition, and no host is reset or fenced without its reasons."""

from hypothesis import given
from hypothesis import strategies as st

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

seconds = st.floats(0, 10_000)
small = st.integers(0, 20)
records = st.builds(
    HaRecord,
    st.sampled_from(HaState),
    seconds,
    st.none() | seconds,
    small,
    small,
    small,
    st.none() | seconds,
)
signals = st.builds(HaSignals, *[st.booleans()] * 6)
settings = st.builds(
    HaSettings, seconds, seconds, st.integers(1, 20), st.floats(0, 1), seconds, small, seconds, seconds
)


@given(records, signals, settings)
def test_every_decision_is_a_transition(record: HaRecord, seen: HaSignals, given_settings: HaSettings) -> None:
    """What is decided for a state is declared for it."""
    event = next_event(record, seen, given_settings)
    assert event is None or (record.state, event) in TRANSITIONS


@given(records, signals, settings)
def test_hosts_that_answer_or_are_withheld_are_left_alone(
    record: HaRecord, seen: HaSignals, given_settings: HaSettings
) -> None:
    """No reset and no fence begins where HA is off, or where most hosts are silent; nor from a healthy state."""
    event = next_event(record, seen, given_settings)
    if event in (HaEvent.RETRY_RECOVERY, HaEvent.RECOVERY_ATTEMPTS_EXCEEDED, HaEvent.RETRY_FENCING):
        assert seen.is_enabled
        assert not seen.is_withheld
        assert record.state in (HaState.RECOVERING, HaState.FENCING)
    if event is HaEvent.RETRY_RECOVERY:
        assert record.recoveries < given_settings.recoveries
    if event is HaEvent.FENCED:
        assert seen.is_fenced


@given(seconds, seconds, settings)
def test_guests_have_the_interval_between_two_checks_to_write(
    in_state_s: float, check_s: float, given_settings: HaSettings
) -> None:
    """However long a check took, the next one begins an interval after its end, when the host became Suspect."""
    record = HaRecord(HaState.SUSPECTED, in_state_s, since_check_s=in_state_s + check_s)
    event = next_event(record, HaSignals(is_enabled=True, is_eligible=True, answers=False), given_settings)
    is_due = in_state_s >= given_settings.check_interval_s
    assert event is (HaEvent.PERFORM_ACTIVITY_CHECK if is_due else None)


@given(records, settings)
def test_hosts_are_inactive_only_after_all_checks(record: HaRecord, given_settings: HaSettings) -> None:
    """One failed check decides nothing unless it is the only one; active guests keep their host."""
    result = check_result(record, given_settings)
    if result is HaEvent.INACTIVE:
        assert record.checks >= given_settings.checks
        assert record.failed_checks > record.checks * given_settings.failure_ratio
    if record.failed_checks == 0:
        assert result is not HaEvent.INACTIVE


def test_a_state_leads_to_reset_or_fence_only_through_all_before_it() -> None:
    """Fencing follows from Recovering, and Recovering from Checking, and both from nothing else."""

    def before(state: HaState) -> set[HaState]:
        return {source for (source, _), target in TRANSITIONS.items() if target is state and source is not state}

    assert before(HaState.FENCED) == {HaState.FENCING}
    assert before(HaState.FENCING) == {HaState.RECOVERING}
    assert before(HaState.RECOVERING) == {HaState.CHECKING}
    assert before(HaState.CHECKING) == {HaState.SUSPECTED}
    assert before(HaState.SUSPECTED) == {HaState.AVAILABLE, HaState.CHECKING, HaState.DEGRADED}
